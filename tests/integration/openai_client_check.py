"""Uses the openai package, unchanged, on a server at 127.0.0.1:PORT. Ends with 0 if all is well.

usage: openai_client_check.py PORT api|two_turns
"""

import sys

import openai


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_error(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def check_completions(client, model):
    answer = client.completions.create(model=model, prompt="one two", max_tokens=12, logprobs=3,
                                       seed=1, temperature=1, extra_body={"ignore_eos": True})
    choice = answer.choices[0]
    check(answer.object == "text_completion" and choice.finish_reason == "length", answer)
    check(answer.usage.completion_tokens == 12, answer.usage)
    check(answer.usage.total_tokens == answer.usage.prompt_tokens + 12, answer.usage)
    check(answer.usage.prompt_tokens_details.cached_tokens >= 0, answer.usage)
    check(len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) == 12, choice)
    check(all(len(top) <= 3 for top in choice.logprobs.top_logprobs), choice)
    check(choice.logprobs.text_offset == sorted(choice.logprobs.text_offset), choice)

    several = client.completions.create(model=model, prompt=["a", "b"], n=2, max_tokens=3)
    check([choice.index for choice in several.choices] == [0, 1, 2, 3], several)
    ids = client.completions.create(model=model, prompt=[5, 6, 7], max_tokens=2, echo=True)
    check(ids.usage.prompt_tokens == 3, ids)

    stream = client.completions.create(model=model, prompt="one two", max_tokens=12, seed=1,
                                       temperature=1, stream=True,
                                       extra_body={"ignore_eos": True})
    text = "".join(chunk.choices[0].text for chunk in stream)
    check(text == choice.text, (text, choice.text))


def check_chat(client, model):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    answer = client.chat.completions.create(model=model, messages=messages, max_tokens=10,
                                            logprobs=True, top_logprobs=2, n=2,
                                            extra_body={"ignore_eos": True})
    check(answer.object == "chat.completion" and len(answer.choices) == 2, answer)
    choice = answer.choices[0]
    check(choice.message.role == "assistant" and choice.finish_reason == "length", answer)
    check(len(choice.logprobs.content) == 10, choice)
    check(len(choice.logprobs.content[0].top_logprobs) == 2, choice)
    check(choice.logprobs.content[0].logprob <= 0, choice)

    stream = client.chat.completions.create(model=model, messages=messages, max_tokens=10,
                                            stream=True, stream_options={"include_usage": True},
                                            extra_body={"ignore_eos": True})
    text, role, usage, finish = "", None, None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for part in chunk.choices:
            role = part.delta.role or role
            text += part.delta.content or ""
            finish = part.finish_reason or finish
    check(text == choice.message.content, (text, choice.message.content))
    check((role, finish, usage.completion_tokens) == ("assistant", "length", 10),
          (role, finish, usage))

    # A client that goes away in the middle.
    with client.chat.completions.create(model=model, messages=messages, max_tokens=1500,
                                        stream=True) as cut:
        next(iter(cut))


def check_stop(client, model):
    whole = client.completions.create(model=model, prompt="abc", max_tokens=80,
                                      extra_body={"ignore_eos": True}).choices[0].text
    stop = whole[len(whole) // 2:len(whole) // 2 + 2]
    if not stop:
        return
    answer = client.completions.create(model=model, prompt="abc", max_tokens=80, stop=[stop],
                                       extra_body={"ignore_eos": True}).choices[0]
    check((answer.text, answer.finish_reason) == (whole[:whole.find(stop)], "stop"), answer)


def check_errors(client, model):
    error = expect_error(openai.BadRequestError, lambda: client.completions.create(
        model=model, prompt="a", max_tokens=-1))
    check(error.param == "max_tokens" and error.type == "invalid_request_error", error)
    error = expect_error(openai.NotFoundError, lambda: client.completions.create(
        model="other", prompt="a"))
    check(error.code == "model_not_found", error)
    expect_error(openai.BadRequestError, lambda: client.chat.completions.create(
        model=model, messages=[]))


def check_two_turns(client, model):
    messages = [{"role": "user", "content": "Tell me about the sea in some detail."}]
    first = client.chat.completions.create(model=model, messages=messages, max_tokens=100)
    messages.append({"role": "assistant", "content": first.choices[0].message.content})
    messages.append({"role": "user", "content": "And the mountains?"})
    second = client.chat.completions.create(model=model, messages=messages, max_tokens=8)
    cached = second.usage.prompt_tokens_details.cached_tokens
    # Full blocks of 32 of what the first turn computed: its last token needed no KV.
    check(cached >= (first.usage.total_tokens - 1) // 32 * 32, (first.usage, second.usage))
    check(cached > first.usage.prompt_tokens, (first.usage, second.usage))


def main(port, what):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    check(client.models.retrieve(model).id == model, model)
    if what == "two_turns":
        check_two_turns(client, model)
        return
    check_completions(client, model)
    check_chat(client, model)
    check_stop(client, model)
    check_errors(client, model)


if __name__ == "__main__":
    main(*sys.argv[1:])
