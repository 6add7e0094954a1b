//! One JSON document a line: a value and the payload that memcomparable 0.2 gives it.

use memcomparable::{Decimal, Serializer};
use serde::Serialize;
use serde_bytes::Bytes;
use serde_json::{json, Value};

type Encoder = Serializer<Vec<u8>>;

fn main() {
    let mut source = Source(20261121);
    for value in [false, true] {
        line("boolean", json!(value), value);
    }
    integers(&mut source);
    floats(&mut source);
    for text in texts(&mut source) {
        line("string", json!(text), text.as_str());
    }
    for bytes in binaries(&mut source) {
        line("binary", json!(hex(&bytes)), Bytes::new(&bytes));
    }
    for text in decimals(&mut source) {
        decimal_line(&text);
    }
}

fn line(type_name: &str, value: Value, encoded: impl Serialize) {
    print(type_name, value, |encoder| {
        encoded.serialize(encoder).unwrap()
    });
}

fn decimal_line(text: &str) {
    let value: Decimal = text.parse().unwrap();
    // rust_decimal rounds what it cannot hold.
    assert_eq!(value.to_string(), text);
    print("decimal", json!(text), |encoder| {
        encoder.serialize_decimal(value).unwrap()
    });
}

fn print(type_name: &str, value: Value, encode: impl Fn(&mut Encoder)) {
    let [payload, reversed] = [false, true].map(|reverse| {
        let mut encoder = Serializer::new(vec![]);
        encoder.set_reverse(reverse);
        encode(&mut encoder);
        encoder.into_inner()
    });
    // Hence the file need not hold the descending form.
    assert!(payload
        .iter()
        .zip(&reversed)
        .all(|(byte, other)| *byte == !other));
    println!(
        "{}",
        json!({"type": type_name, "value": value, "payload": hex(&payload)})
    );
}

fn integers(source: &mut Source) {
    for (bits, name) in [
        (8, "tinyint"),
        (16, "smallint"),
        (32, "int"),
        (64, "bigint"),
    ] {
        let high = (1i128 << (bits - 1)) - 1;
        let corners = [
            -high - 1,
            -high,
            -129,
            -128,
            -2,
            -1,
            0,
            1,
            127,
            128,
            255,
            256,
            high - 1,
            high,
        ];
        let drawn: Vec<i128> = (0..16)
            .map(|n| (source.next() as i64 >> (64 - bits) >> (n % 5)) as i128)
            .collect();
        for value in corners
            .into_iter()
            .chain(drawn)
            .filter(|value| -high - 1 <= *value && *value <= high)
        {
            let shown = json!(value as i64);
            match bits {
                8 => line(name, shown, value as i8),
                16 => line(name, shown, value as i16),
                32 => line(name, shown, value as i32),
                _ => line(name, shown, value as i64),
            }
        }
    }
}

/// Floats are written as their bits: of NaNs there are many.
fn floats(source: &mut Source) {
    let singles: [u32; 20] = [
        0x0000_0000,
        0x8000_0000,
        0x0000_0001,
        0x8000_0001,
        0x007f_ffff,
        0x807f_ffff,
        0x0080_0000,
        0x8080_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x3f80_0001,
        0x4b80_0000,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffc0_0000,
        0x7fc0_0001,
        0xffff_ffff,
    ];
    for bits in singles
        .into_iter()
        .chain((0..60).map(|_| source.next() as u32))
    {
        line("float", json!(format!("{bits:08x}")), f32::from_bits(bits));
    }
    let doubles: [u64; 22] = [
        0x0000_0000_0000_0000,
        0x8000_0000_0000_0000,
        0x0000_0000_0000_0001,
        0x8000_0000_0000_0001,
        0x000f_ffff_ffff_ffff,
        0x800f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x8010_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0xbff0_0000_0000_0000,
        0x3ff0_0000_0000_0001,
        0x4340_0000_0000_0000,
        0x3fb9_9999_9999_999a,
        0x7fef_ffff_ffff_ffff,
        0xffef_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0xfff8_0000_0000_0000,
        0x7ff8_0000_0000_0001,
        0x7fff_ffff_ffff_ffff,
        0xffff_ffff_ffff_ffff,
    ];
    for bits in doubles.into_iter().chain((0..60).map(|_| source.next())) {
        line(
            "double",
            json!(format!("{bits:016x}")),
            f64::from_bits(bits),
        );
    }
}

fn texts(source: &mut Source) -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "\0",
        "a",
        "a\0",
        "\0a",
        "é",
        "日本語",
        "\u{fb49}",
        "\u{1f525}",
        "\u{10ffff}",
    ]
    .map(String::from)
    .to_vec();
    for length in [1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 64] {
        texts.push("b".repeat(length));
        texts.push("b".repeat(length - 1) + "\0");
    }
    let letters: Vec<char> = "\0ab~é\u{fb49}\u{1f525}".chars().collect();
    for _ in 0..40 {
        texts.push(
            (0..source.below(14))
                .map(|_| letters[source.below(letters.len())])
                .collect(),
        );
    }
    texts
}

fn binaries(source: &mut Source) -> Vec<Vec<u8>> {
    let mut all = vec![vec![]];
    for length in [1, 7, 8, 9, 15, 16, 17, 24, 25] {
        all.extend([vec![0; length], vec![255; length], vec![9; length]]);
    }
    for length in 0..40 {
        all.push((0..length).map(|_| source.next() as u8).collect());
    }
    all
}

fn decimals(source: &mut Source) -> Vec<String> {
    let mut all: Vec<String> = [
        "0", "0.00", "1", "1.0", "1.00", "-1", "-1.00", "12.34", "-12.34", "0.1", "-0.1", "0.01",
    ]
    .map(String::from)
    .to_vec();
    // The largest and the smallest that the crate holds.
    all.extend(
        [
            "79228162514264337593543950335",
            "-79228162514264337593543950335",
        ]
        .map(String::from),
    );
    // 1, 9, 10 and 99 at every exponent that the crate holds, with both signs.
    for zeros in 0..=27 {
        for digits in ["1", "9", "10", "99"] {
            let whole = format!("{digits}{}", "0".repeat(zeros));
            let part = format!("0.{}{digits}", "0".repeat(zeros));
            let fits = [whole.len() <= 28, part.len() <= 30];
            for (text, fits) in [whole, part].into_iter().zip(fits) {
                if fits {
                    all.extend([text.clone(), format!("-{text}")]);
                }
            }
        }
    }
    // 1 to 28 digits, the point anywhere.
    for precision in (0..112).map(|drawn| 1 + drawn % 28) {
        let digits: String = (0..precision)
            .map(|at| (b'0' + source.digit(at == 0)) as char)
            .collect();
        let scale = source.below(precision + 1);
        let (whole, part) = digits.split_at(precision - scale);
        let sign = if source.below(2) == 0 { "" } else { "-" };
        let point = if scale == 0 { "" } else { "." };
        all.push(format!(
            "{sign}{}{point}{part}",
            if whole.is_empty() { "0" } else { whole }
        ));
    }
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SplitMix64: the same numbers in every run.
struct Source(u64);

impl Source {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn digit(&mut self, first: bool) -> u8 {
        if first {
            1 + self.below(9) as u8
        } else {
            self.below(10) as u8
        }
    }
}
