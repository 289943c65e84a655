"""Names of downloads: what a person wrote, in a header that ends where it should."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.downloads import disposition

_FORM = re.compile(r"attachment; filename=\"([^\"]*)\"; filename\*=UTF-8''([^;]*)")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a\uff02; filename=\uff02evil.html", "a_; filename=_evil.html"),
        ("..\uff0f..\uff0fetc\uff0fpasswd", "_.._etc_passwd"),
        ("a\uff3cb\uff1ac\uff0ad\uff1fe\uff1cf\uff1eg\uff5ch\uff05i", "a_b_c_d_e_f_g_h_i"),
        ("Größe ½", "Groe 12"),
        ("\uff0f", "run"),
    ],
)
def test_what_becomes_ascii_only_by_normalising_is_cleaned_too(name: str, plain: str):
    found = _FORM.fullmatch(disposition(name, "run", ".csv"))
    assert found
    assert found[1].removesuffix(".csv").strip("_. ") == plain.strip("_. ")


@given(st.text(max_size=60))
def test_any_name_gives_one_header_of_one_form(name: str):
    found = _FORM.fullmatch(disposition(name, "run", ".csv"))
    assert found
    for each in (found[1], unquote(found[2])):
        assert not set(each) & set('/\\"\r\n')
