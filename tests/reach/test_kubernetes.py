"""The Kubernetes manifests against the schemas of Kubernetes, strictly: no field that there is not."""

from __future__ import annotations

import copy

import kubernetes_validate
import pytest

from tests.support.manifests import documents

#: The oldest that is still maintained and the newest that the schemas are of.
VERSIONS = ("1.34", kubernetes_validate.latest_version())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "document", documents("with-server"), ids=lambda one: f"{one['kind']} {one['metadata']['name']}"
)
def test_each_is_what_kubernetes_takes(document, version):
    """Every field is known there, and of the right type."""
    kubernetes_validate.validate(copy.deepcopy(document), version, strict=True)


def test_a_misspelled_field_is_found():
    """Control: the schema bites."""
    wrong = copy.deepcopy(next(one for one in documents("base") if one["kind"] == "Deployment"))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)
