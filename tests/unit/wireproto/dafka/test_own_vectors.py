"""Golden vectors of our own: the document, the data file and the code agree byte for byte."""

import re

import pytest

from tests.unit.wireproto.dafka.vectors import DOCUMENT, OWN, decoder_of, documented_vectors, own_vectors
from wireproto.dafka import additions, beacons, messages

VECTORS = own_vectors()


def test_the_document_has_the_vectors_of_the_data_file() -> None:
    assert documented_vectors() == VECTORS


def test_every_vector_has_its_meaning_here() -> None:
    assert set(VECTORS) == {*OWN, "WELCOME"}
    assert VECTORS["WELCOME"] == [beacons.WELCOME]


def test_every_message_that_can_be_decoded_has_a_vector() -> None:
    known = set(messages._DECODERS) | set(messages._CONTENT_DECODERS)
    assert {VECTORS[name][0][0] for name in OWN if not name.endswith("BEACON")} == known


@pytest.mark.parametrize("name", OWN)
def test_a_message_encodes_to_its_vector(name: str) -> None:
    assert OWN[name].frames() == VECTORS[name]


@pytest.mark.parametrize("name", OWN)
def test_a_vector_decodes_to_its_message(name: str) -> None:
    message = decoder_of(name)(VECTORS[name])
    assert message == OWN[name]
    assert type(message) is type(OWN[name])


def test_every_id_of_our_own_is_one_that_no_c_node_subscribes_to() -> None:
    ours = {VECTORS[name][0][:1] for name in list(OWN)[list(OWN).index("OPEN") :]}
    subscribed_by_c = set(b"MHDFGWKEL")
    assert not {message_id[0] for message_id in ours} & subscribed_by_c


def test_the_document_names_every_status_byte() -> None:
    section = DOCUMENT.read_text().partition("## 7. Status bytes")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| (\d+) \| ([a-z ]+) \|", section, re.MULTILINE)
    names = {name: value for name, value in vars(additions).items() if name.startswith("STATUS_")}
    assert {f"STATUS_{name.upper().replace(' ', '_')}": int(value) for value, name in documented} == names
