"""Z85: bytes as text, four as five characters (RFC 32 of ZeroMQ). A key of CURVE has 32 bytes."""

import struct

KEY_CHARACTERS = 40

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_VALUES = {character: value for value, character in enumerate(ALPHABET)}
_WORD = struct.Struct(">I")


def encode(data: bytes) -> str:
    """Raises ValueError unless the length is a multiple of four."""
    if len(data) % 4:
        raise ValueError(f"{len(data)} bytes are no multiple of four")
    return "".join(_characters(word) for (word,) in _WORD.iter_unpack(data))


def decode(text: str) -> bytes:
    """Raises ValueError for what `encode` does not write."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters are no multiple of five")
    return b"".join(_word(text[start : start + 5]) for start in range(0, len(text), 5))


def is_key(text: str) -> bool:
    """Whether this is a key of CURVE."""
    try:
        return len(text) == KEY_CHARACTERS and len(decode(text)) == 32
    except ValueError:
        return False


def _characters(word: int) -> str:
    found = ""
    for _ in range(5):
        word, value = divmod(word, 85)
        found = ALPHABET[value] + found
    return found


def _word(characters: str) -> bytes:
    word = 0
    for character in characters:
        value = _VALUES.get(character)
        if value is None:
            raise ValueError("a character that Z85 does not have")
        word = word * 85 + value
    if word >= 1 << 32:
        raise ValueError("five characters above 2^32 - 1")
    return _WORD.pack(word)
