"""What several of these scripts need."""


def writes(count):
    """A plan of so many random writes of 4 KiB."""
    return f"""version = 1
name = "w"
[[experiment]]
name = "W"
pattern = "RW"
io_size = "4KiB"
io_count = {count}
"""


def raises(kind, words, work):
    """The error of this kind that the work raises; its text has these words."""
    try:
        work()
    except kind as error:
        assert words in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__} about {words}")
