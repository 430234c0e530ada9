"""What every run must count the same, though the kernel is asked for random bytes."""

import random
import secrets


def test_random_bytes(truecount):
    texts = truecount(lambda: {secrets.token_hex(4) for _ in range(50)})
    assert len(texts) == 50


def test_random_numbers(truecount):
    numbers = truecount(lambda: sorted(random.Random().random() for _ in range(50)))
    assert numbers[0] < numbers[-1]
