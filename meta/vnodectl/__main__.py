from meta.vnodectl.main import main

main()
