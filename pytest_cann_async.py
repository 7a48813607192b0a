"""The pytest plugin of cann_async: with ``--cann-acl``, ``import acl`` gives pyACL on the simulated NPU.

pytest loads this module in every run, in any environment that has cann_async installed. So it stands outside of the
package, whose import brings NumPy, and imports that only when it is asked for.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("cann-async", "a simulated NPU")
    group.addoption("--cann-acl", action="store_true", help="let `import acl` give pyACL on the simulated NPU")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install `acl` before the first conftest, which may import it."""
    if not early_config.known_args_namespace.cann_acl:
        return
    from cann_async import acl

    try:
        acl.install()
    except ImportError as problem:
        raise pytest.UsageError(f"--cann-acl: {problem}") from None
