"""What /metrics says, sample by sample."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.service.conftest import Service

Sample = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(service: Service) -> Sample:
    """Return every sample of /metrics."""
    text = service.client.get("/metrics").get_data(as_text=True)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Sample, name: str, **labels: str) -> float:
    """Return one sample."""
    return samples[name, frozenset(labels.items())]
