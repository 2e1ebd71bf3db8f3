"""``python -m momentmix``: the command, where its script is not on the path."""

from momentmix.cli.app import main

if __name__ == "__main__":
    main()
