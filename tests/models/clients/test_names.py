"""Whether a name finds its provider, address and key; it asks nobody."""

import os
import subprocess
import sys
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

import penstock.models
from penstock import (
    Agent,
    ClassifierProcessor,
    LanguageDetector,
    ModelSelectionProcessor,
    ModerationProcessor,
    OpenAICompatibleModel,
    OptionError,
    PIIDetector,
    PromptInjectionDetector,
    StructuredOutputProcessor,
    SystemPromptScrubber,
)
from penstock.engine import MissingExtraError, ModelRequest
from penstock.engine.values.protocols import Embedder, Model
from penstock.models import Judge, PydanticAIModel, TimeLimits
from penstock.models.named import as_model
from penstock.models.openai import http
from penstock.models.openai.providers import PROVIDERS, Provider, filled
from penstock.testing import ScriptedModel
from penstock.workflows import presets


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no key of the machine's."""
    for name in list(os.environ):
        if name.endswith(("_KEY", "_TOKEN", "_URL", "_ENDPOINT")):
            monkeypatch.delenv(name)


def address(model: OpenAICompatibleModel) -> str:
    """Return where a model's requests go."""
    return model._http.place.url


@pytest.mark.parametrize(
    ("name", "variable", "url", "model"),
    [
        ("openai/gpt-5", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5"),
        (
            "openrouter/openai/gpt-oss-safeguard-20b",
            "OPENROUTER_API_KEY",
            "https://openrouter.ai/api/v1",
            "openai/gpt-oss-safeguard-20b",
        ),
        ("google/gemini-2.5-flash", "GOOGLE_API_KEY", PROVIDERS["gemini"].url, "gemini-2.5-flash"),
        ("z.ai/glm-4.7", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4", "glm-4.7"),
    ],
)
def test_a_name_finds_address_and_key(
    name: str, variable: str, url: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider is what stands before the first slash."""
    monkeypatch.setenv(variable, "k-1234567")
    found = penstock.model(name)
    assert isinstance(found, OpenAICompatibleModel)
    assert (address(found), found.model, found.name) == (url, model, name)
    assert found._http.place.headers == {"Authorization": "Bearer k-1234567"}


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_missing_key_says_which_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every provider that needs one; servers of one's own need none."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/")
    monkeypatch.setenv("SNOWFLAKE_ACCOUNT", "me")
    if PROVIDERS[name].keyless:
        assert "127.0.0.1" in address(OpenAICompatibleModel(f"{name}/m"))
        return
    with pytest.raises(OptionError, match=" or ".join(PROVIDERS[name].keys)):
        OpenAICompatibleModel(f"{name}/m")
    monkeypatch.setenv(PROVIDERS[name].keys[-1], "k-1234567")
    assert address(OpenAICompatibleModel(f"{name}/m")).startswith("https://")


def test_an_unknown_provider_lists_the_known_ones() -> None:
    """And says which one is near."""
    with pytest.raises(
        OptionError, match=r"one of alibaba, .*, zai \(did you mean 'openrouter'\?\); or give base_url="
    ):
        penstock.model("openruter/x")
    with pytest.raises(OptionError, match="<provider>/<model>"):
        penstock.model("gpt-5")


def test_any_address_will_do() -> None:
    """Then a name is the server's own, slashes included, and no key is taken from the environment."""
    model = OpenAICompatibleModel("openai/gpt-oss", base_url="http://127.0.0.1:9/v1/", query={"a": "b"})
    assert (address(model), model.model, model.name) == (
        "http://127.0.0.1:9/v1",
        "openai/gpt-oss",
        "openai-compatible/openai/gpt-oss",
    )
    assert model._http.place.headers == {}
    assert model._http.place.query == {"a": "b"}


def test_a_key_of_the_environment_goes_to_no_foreign_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the provider is named beside it."""
    monkeypatch.setenv("OPENAI_API_KEY", "k-1234567")
    assert OpenAICompatibleModel("openai/m", base_url="http://127.0.0.1:9")._http.place.headers == {}
    named = OpenAICompatibleModel("m", base_url="http://127.0.0.1:9", provider="openai")
    assert named._http.place.headers == {"Authorization": "Bearer k-1234567"}


def test_azure_has_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And an address of one's own, in the old form by hand."""
    with pytest.raises(OptionError, match="AZURE_OPENAI_ENDPOINT"):
        OpenAICompatibleModel("azure/gpt-4o", api_key="k-1234567")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/")
    model = OpenAICompatibleModel("azure/gpt-4o", api_key="k-1234567")
    assert address(model) == "https://me.openai.azure.com/openai/v1"
    assert model._http.place.headers == {"api-key": "k-1234567"}
    older = OpenAICompatibleModel(
        "gpt-4o",
        provider="azure",
        api_key="k-1234567",
        base_url="https://me.openai.azure.com/openai/deployments/gpt-4o",
        query={"api-version": "2024-10-21"},
    )
    assert address(older).endswith("/deployments/gpt-4o")


def test_a_provider_may_be_described_by_hand() -> None:
    """With what is special about it."""
    own = Provider("mine", "https://mine.example/v1", ("MINE_KEY",), limit="max_completion_tokens")
    with pytest.raises(OptionError, match="MINE_KEY"):
        OpenAICompatibleModel("m", provider=own)
    model = OpenAICompatibleModel("m", provider=own, api_key="k", settings={"max_tokens": 5})
    assert model.name == "mine/m"
    assert model.body(ModelRequest("hi"))["max_completion_tokens"] == 5  # type: ignore[arg-type]


def test_an_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the table names a variable for it."""
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://box:11434/v1")
    assert address(OpenAICompatibleModel("ollama/qwen3")) == "http://box:11434/v1"
    assert filled("{NOT_SET_URL|http://x/}y", "test") == "http://xy"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"base_url": "ftp://x"}, "http:// or https://"),
        ({"base_url": "http://"}, "http:// or https://"),
        ({"base_url": "http://x", "timeout": 0}, "above 0"),
        ({"base_url": "http://x", "most_of_an_event": 0}, "1 or more"),
        ({"base_url": "http://x", "headers": {"a": "b\nc"}}, "a text of one line"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], problem: str) -> None:
    """Where the model is made."""
    with pytest.raises(OptionError, match=problem):
        OpenAICompatibleModel("m", **options)  # type: ignore[arg-type]


def test_what_is_a_model_already_stays_one() -> None:
    """So that whoever takes a model may take a name too."""
    model = OpenAICompatibleModel("ollama/x", timeout=TimeLimits(whole=1))
    assert penstock.model(model) is model
    assert isinstance(model, Model)
    assert isinstance(penstock.models.OpenAICompatibleEmbedder("ollama/x"), Embedder)


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a model is made."""
    monkeypatch.setattr(http, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"penstock\[openai\]"):
        OpenAICompatibleModel("ollama/x")


def test_importing_the_package_and_the_model_loads_no_httpx() -> None:
    """It is loaded with the first request."""
    code = "import sys, penstock; penstock.OpenAICompatibleModel('ollama/x'); print('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


NAME = "ollama/qwen3"
CHOICES = [{"model": "a/b", "criteria": "c"}, {"model": "a/c", "criteria": "d"}]


@pytest.mark.parametrize(
    "make",
    [
        lambda given: Judge(given, dict, "Is it bad?").model,
        lambda given: Agent(given).model,
        lambda given: ModerationProcessor(given).search.setup.judge.model,
        lambda given: PromptInjectionDetector(given).search.setup.judge.model,
        lambda given: PIIDetector(given).search.setup.judge.model,
        lambda given: SystemPromptScrubber(given).search.setup.judge.model,
        lambda given: LanguageDetector(given, embedded=False).search.setup.judge.model,
        lambda given: ClassifierProcessor({"bad": "Is it bad?"}, print, model=given).search.setup.judge.model,
        lambda given: ModelSelectionProcessor(model=given, choices=CHOICES).model,
        lambda given: as_model(given, "Something"),
    ],
)
def test_a_name_will_do_wherever_a_model_is_taken(make: Any) -> None:
    """So will a model of pydantic-ai, and a class of models will not."""
    assert (make(NAME).name, make(penstock.model(NAME)).name) == (NAME, NAME)
    assert isinstance(make(TestModel()), PydanticAIModel)
    for wrong in ("nobody/knows", "without-a-provider", ScriptedModel):
        with pytest.raises(OptionError):
            make(wrong)


def test_presets_and_second_models_take_names_too() -> None:
    """Each gives them to what it is made of."""
    for preset in (presets.safety, presets.moderation, presets.injection, presets.privacy):
        assert preset(NAME)
        with pytest.raises(OptionError, match="provider"):
            preset("nobody/knows")
    assert StructuredOutputProcessor(dict[str, int], model=NAME)
    with pytest.raises(OptionError, match="provider"):
        StructuredOutputProcessor(dict[str, int], model="nobody/knows")
