"""The pytest plugin, in pytest runs of their own."""

from __future__ import annotations

import sys

import pytest

pytest_plugins = ["pytester"]

PROGRAM_TESTS = """
    import acl
    from acl.rt import set_device

    def test_there_is_an_npu():
        assert acl.init() == 0
        assert set_device(0) == 0
        assert acl.rt.get_device_count() == (1, 0)
"""


@pytest.fixture
def alone(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder whose pytest runs have this plugin and no other, and where a warning is an error."""
    pytester.makeini("[pytest]\naddopts = -W error -p no:asyncio -p no:hypothesispytest -p no:timeout -p no:anyio\n")
    return pytester


def test_the_option_serves_acl_to_conftests_and_tests(alone):
    """`import acl` works from the first conftest on."""
    alone.makeconftest("import acl.rt")
    alone.makepyfile(PROGRAM_TESTS)
    alone.runpytest_subprocess("--cann-acl").assert_outcomes(passed=1)


def test_without_the_option_there_is_no_acl_and_nothing_is_imported(alone):
    """A run that does not ask for it does not pay for it."""
    alone.makepyfile("""
        import sys
        import pytest

        def test_nothing():
            assert "pytest_cann_async" in sys.modules
            assert not {"cann_async", "numpy", "anyio"} & set(sys.modules)
            with pytest.raises(ModuleNotFoundError):
                import acl
    """)
    alone.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_real_acl_is_not_hidden(alone):
    """The run ends at once and says why."""
    (alone.path / "real").mkdir()
    (alone.path / "real" / "acl.py").write_text("")
    alone.makepyfile(PROGRAM_TESTS)
    alone.makeini("[pytest]\npythonpath = real\n")
    ended = alone.runpytest_subprocess("--cann-acl")
    ended.stderr.fnmatch_lines("*--cann-acl: a real pyACL can be imported*")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR


def test_pytest_as_a_program_of_the_launcher(alone):
    """`cann-async run -m pytest` needs no option, and does not warn that the package has been imported before."""
    alone.makepyfile(PROGRAM_TESTS)
    alone.run(sys.executable, "-m", "cann_async", "run", "-m", "pytest").assert_outcomes(passed=1)
