"""The names of subjects are those that Java makes of them.

The expected ones were written by OpenJDK 17's `new X500Principal(der).getName()`, run over these bytes.
"""

from __future__ import annotations

import pytest

from gateway.security.certificate import NotACertificate
from gateway.security.distinguished_name import distinguished_name

BY_JAVA = [
    ("3000", ""),
    ("3010310e300c06035504030c056b61666b61", "CN=kafka"),
    (
        "305d310b30090603550406130244453110300e06035504080c0742617661726961310f300d06035504070c064d756e696368310d300b060355040a0c0441636d65310c300a060355040b0c034f7073310e300c06035504030c05616c696365",
        "CN=alice,OU=Ops,O=Acme,L=Munich,ST=Bavaria,C=DE",
    ),
    (
        "305331133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c6531123010060a0992268993f22c6401010c027531310f300d06035504090c064d61696e2031",
        "STREET=Main 1,UID=u1,DC=example,DC=org",
    ),
    (
        "3022310a300806035504030c01613114301206092a864886f70d01090116056140622e63",
        "1.2.840.113549.1.9.1=#16056140622e63,CN=a",
    ),
    (
        "3034310b3009060355040513023432310b3009060355042a0c02416c310c300a06035504040c03496365310a3008060355040c0c0178",
        "2.5.4.12=#0c0178,2.5.4.4=#0c03496365,2.5.4.42=#0c02416c,2.5.4.5=#13023432",
    ),
    ("300c310a300806038837030c0178", "2.999.3=#0c0178"),
    ("301631143012060d2b06010401868d1f90808080000c0178", "1.3.6.1.4.1.99999.4294967296=#0c0178"),
    ("300d310b300906045504822c0c0178", "2.5.4.300=#0c0178"),
    ("30143112301006035504030c092c3d2b3c3e233b225c", 'CN=\\,\\=\\+\\<\\>\\#\\;\\"\\\\'),
    (
        "301e311c301a06035504030c13612c623d632b643c653e6623673b6822695c6a",
        'CN=a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j',
    ),
    ("3010310e300c06035504030c05236c656164", "CN=\\#lead"),
    ("3010310e300c06035504030c05206c656164", "CN=\\ lead"),
    ("3011310f300d06035504030c06747261696c20", "CN=trail\\ "),
    ("30133111300f06035504030c082020626f74682020", "CN=\\ \\ both\\ \\ "),
    ("30123110300e06035504030c07696e20206e6572", "CN=in  ner"),
    ("300c310a300806035504030c0120", "CN=\\ "),
    ("300e310c300a06035504030c03202020", "CN=\\ \\ \\ "),
    ("300b3109300706035504030c00", "CN="),
    ("300e310c300a06035504030c030d610d", "CN=\\\ra\\\r"),
    ("300e310c300a06035504030c030a610a", "CN=\na\n"),
    ("300e310c300a06035504030c03610062", "CN=a\\00b"),
    ("300e310c300a06035504030c03017f09", "CN=\x01\x7f\t"),
    ("300e310c300a06035504030c03200020", "CN=\\ \\00\\ "),
    ("301b3119301706035504030c105a6fc3ab20e697a5e69cac20f09f9880", "CN=Zo\xeb \u65e5\u672c \U0001f600"),
    ("300d310b300906035504030c02fffe", "CN=\ufffd\ufffd"),
    ("300d310b300906035504030c0261c3", "CN=a\ufffd"),
    ("300e310c300a06035504030c03f09f98", "CN=\ufffd"),
    ("300d310b300906035504030c02c0af", "CN=\ufffd\ufffd"),
    ("3010310e300c06035504030c05f490808078", "CN=\ufffd\ufffd\ufffd\ufffdx"),
    ("3010310e300c06035504031305706c61696e", "CN=plain"),
    ("3010310e300c060355040316056961354078", "CN=ia5@x"),
    ("300e310c300a060355040314035a6feb", "CN=Zo\ufffd"),
    ("3011310f300d06035504031e06005a006f00eb", "CN=\\00Z\\00o\\00\ufffd"),
    ("30133111300f06035504031c080000005a0000006f", "CN=#1c080000005a0000006f"),
    ("300e310c300a06035504031b0367656e", "CN=gen"),
    ("300e310c300a06035504031203313233", "CN=#1203313233"),
    ("300e310c300a06035504031a03766973", "CN=#1a03766973"),
    ("300e310c300a06035504030303006162", "CN=#0303006162"),
    ("300c310a30080603550403020105", "CN=#020105"),
    ("300e310c300a060355040330030c0178", "CN=#30030c0178"),
    ("300e310c300a060355040304036f6374", "CN=#04036f6374"),
    ("30223114300806035504030c01613008060355040b0c0162310a3008060355040a0c0163", "O=c,CN=a+OU=b"),
    ("301631143008060355040b0c0162300806035504030c0161", "OU=b+CN=a"),
    (
        "30283114300806035504030c017a300806035504030c01613110300e06092a864886f70d010901160178",
        "1.2.840.113549.1.9.1=#160178,CN=z+CN=a",
    ),
    ("3018310a300806035504030c012b310a300806035504030c013d", "CN=\\=,CN=\\+"),
    ("300e310c300a06035504030c03612f62", "CN=a/b"),
    ("30123110300e06035504030c0744454641554c54", "CN=DEFAULT"),
    ("30123110300e06035504030c0761e280a862c285", "CN=a\u2028b\x85"),
    ("300e310a300806035504030c01783100", ",CN=x"),
    ("301b3119300c06035504110c0538313534313009060355040613024445", "2.5.4.17=#0c053831353431+C=DE"),
    ("300c310a30080603551d110c0178", "2.5.29.17=#0c0178"),
    ("300c310a300806035504410c0178", "2.5.4.65=#0c0178"),
    ("300c310a3008060355042e130178", "2.5.4.46=#130178"),
]


@pytest.mark.parametrize(("der", "name"), BY_JAVA)
def test_a_name_is_written_as_java_writes_it(der: str, name: str) -> None:
    assert distinguished_name(bytes.fromhex(der)) == name


def test_long_values_are_whole() -> None:
    text = "x" * 200
    value = b"\x0c\x81\xc8" + text.encode()
    kind = b"\x06\x03\x55\x04\x03"
    attribute = b"\x30\x81\xd0" + kind + value
    part = b"\x31\x81\xd3" + attribute
    assert distinguished_name(b"\x30\x81\xd6" + part) == f"CN={text}"


@pytest.mark.parametrize(
    "der",
    [
        "",
        "30",
        "3005",
        "3100",
        "30003000",
        "3080",
        "308400000000",
        "3002300c",
        "3004310230ff",
        "300431023000",
        "3006310430020600",
        "3008310630040601800c",
        "300a310830060c01780c0178",
        "300a3108300606015504",
        "304f314d304b0647" + "ff" * 70 + "7f0c00",
    ],
)
def test_what_is_no_name_is_refused(der: str) -> None:
    with pytest.raises(NotACertificate):
        distinguished_name(bytes.fromhex(der))


def test_no_beginning_and_no_change_of_a_name_does_anything_else() -> None:
    whole = bytes.fromhex(BY_JAVA[3][0])
    for size in range(len(whole)):
        with pytest.raises(NotACertificate):
            distinguished_name(whole[:size])
    for place in range(len(whole)):
        for byte in (0x00, 0x30, 0x7F, 0x80, 0x84, 0xFF):
            try:
                distinguished_name(whole[:place] + bytes([byte]) + whole[place + 1 :])
            except NotACertificate:
                continue
