import subprocess
import sys


def test_the_pure_modules_import_neither_spark_nor_arrow_nor_numpy() -> None:
    program = (
        "import sys, storage_keys, storage_keys.offline, storage_keys.key\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'pyarrow', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
