#include "inference/server/api_request.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "inference/server/api_keys.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

ApiRequest parsed(ApiKind kind, const std::string& body) {
  const auto request = parse_api_request(kind, body, {.max_tokens = 7, .sampling = {.seed = 3}});
  EXPECT_TRUE(request.has_value()) << request.error().message;
  return request.value_or(ApiRequest{});
}

TEST(ApiRequest, ReadsEveryFieldOfACompletion) {
  const ApiRequest request = parsed(ApiKind::completion, R"({
    "model": "m", "prompt": ["a", "b"], "n": 2, "best_of": 2, "max_tokens": 5, "temperature": 0.5,
    "top_p": 0.9, "top_k": 3, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": -1,
    "repetition_penalty": 1.5, "seed": 9, "stop": ["x", "y"], "logprobs": 4, "stream": true,
    "stream_options": {"include_usage": true}, "ignore_eos": true, "return_token_ids": true,
    "store": false, "priority": -2, "cache_salt": "s", "logit_bias": {"5": -100}, "user": "u",
    "something": {"else": 1}, "suffix": null})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.prompts.size(), 2u);
  EXPECT_EQ(request.choices, 2u);
  EXPECT_EQ(request.max_tokens, 5u);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 3u);
  EXPECT_EQ(request.sampling.min_p, 0.1);
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(request.sampling.seed, 9u);
  EXPECT_TRUE(request.seeded);
  EXPECT_EQ(request.sampling.logit_bias, (std::vector<std::pair<Token, float>>{{5, -100.0f}}));
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(request.logprobs, 4u);
  EXPECT_TRUE(request.stream && request.include_usage && request.ignore_stop_tokens &&
              request.return_token_ids);
  EXPECT_FALSE(request.store);
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.cache_salt, "s");
}

TEST(ApiRequest, ThatOnlyTheLikeliestTokenIsWantedHoldsWhateverElseIsSaid) {
  for (const char* top_k : {"-1", "50"}) {
    const ApiRequest request =
        parsed(ApiKind::completion, std::string(R"({"prompt": "a", "temperature": 1, "top_p": 0,
            "top_k": )") + top_k + "}");
    EXPECT_EQ(request.sampling.top_k, 1u);
    EXPECT_EQ(request.sampling.top_p, 1);
  }
}

// Deeper than any stack.
TEST(ApiRequest, WhatIsNestedWithoutEndIsRefused) {
  const std::string nested = std::string(1'900'000, '[') + std::string(1'900'000, ']');
  EXPECT_EQ(parse_api_request(ApiKind::completion, R"({"prompt":"a","stop":)" + nested + "}", {})
                .error()
                .param,
            "stop");
  EXPECT_EQ(parse_api_request(ApiKind::chat,
                              R"({"messages":[{"role":"user","content":)" + nested + "}]}", {})
                .error()
                .param,
            "messages[0]");
}

TEST(ApiRequest, LogprobsOfAWholeBookAreRefused) {
  EXPECT_EQ(parse_api_request(ApiKind::chat,
                              R"({"messages":[{"role":"user","content":"a"}],"n":64,
                                  "max_tokens":4096,"logprobs":true,"top_logprobs":20})",
                              {})
                .error()
                .param,
            "logprobs");
}

TEST(ApiRequest, ReadsAChat) {
  const ApiRequest request = parsed(ApiKind::chat, R"({"messages": [
    {"role": "developer", "content": "d"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null}],
    "max_completion_tokens": 4, "logprobs": true, "top_logprobs": 2, "stop": "z",
    "tools": [], "response_format": {"type": "text"}})");
  ASSERT_EQ(request.messages.size(), 3u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.max_tokens, 4u);
  EXPECT_EQ(request.logprobs, 2u);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"z"}));
}

TEST(ApiRequest, TakesPromptsOfIdsAndDefaults) {
  const ApiRequest one = parsed(ApiKind::completion, R"({"prompt": [1, 2]})");
  ASSERT_EQ(one.prompts.size(), 1u);
  EXPECT_EQ(std::get<std::vector<Token>>(one.prompts[0]), (std::vector<Token>{1, 2}));
  EXPECT_EQ(one.max_tokens, 7u);
  EXPECT_EQ(one.sampling.seed, 3u);
  EXPECT_FALSE(one.seeded || one.logprobs);
  EXPECT_TRUE(one.store);
  EXPECT_EQ(parsed(ApiKind::completion, R"({"prompt": [[1, 2], [3]]})").prompts.size(), 2u);
}

struct Refused {
  ApiKind kind;
  const char* body;
  const char* param;  // what the error names
};

TEST(ApiRequest, RefusesWhatIsWrongAndNamesIt) {
  constexpr ApiKind completion = ApiKind::completion, chat = ApiKind::chat;
  const Refused all[] = {
      {completion, "", ""},
      {completion, "{", ""},
      {completion, "[]", ""},
      {completion, "\"\xFF\"", ""},
      {completion, R"({})", "prompt"},
      {completion, R"({"prompt": 5})", "prompt"},
      {completion, R"({"prompt": []})", "prompt"},
      {completion, R"({"prompt": [1, "a"]})", "prompt"},
      {completion, R"({"prompt": [-1]})", "prompt"},
      {completion, R"({"prompt": [4294967296]})", "prompt"},
      {completion, R"({"prompt": "a", "max_tokens": 0})", "max_tokens"},
      {completion, R"({"prompt": "a", "max_tokens": 1.5})", "max_tokens"},
      {completion, R"({"prompt": "a", "max_tokens": 18446744073709551615})", "max_tokens"},
      {completion, R"({"prompt": "a", "n": 65})", "n"},
      {completion, R"({"prompt": ["a", "b"], "n": 33})", "n"},
      {completion, R"({"prompt": "a", "best_of": 2})", "best_of"},
      {completion, R"({"prompt": "a", "temperature": -1})", "temperature"},
      {completion, R"({"prompt": "a", "temperature": "hot"})", "temperature"},
      {completion, R"({"prompt": "a", "top_p": 1.1})", "top_p"},
      {completion, R"({"prompt": "a", "top_k": -2})", "top_k"},
      {completion, R"({"prompt": "a", "min_p": 2})", "min_p"},
      {completion, R"({"prompt": "a", "presence_penalty": 3})", "presence_penalty"},
      {completion, R"({"prompt": "a", "repetition_penalty": 0})", "repetition_penalty"},
      {completion, R"({"prompt": "a", "seed": "x"})", "seed"},
      {completion, R"({"prompt": "a", "stop": ""})", "stop"},
      {completion, R"({"prompt": "a", "stop": [1]})", "stop"},
      {completion, R"({"prompt": "a", "logprobs": 21})", "logprobs"},
      {completion, R"({"prompt": "a", "logprobs": true})", "logprobs"},
      {completion, R"({"prompt": "a", "echo": true, "logprobs": 1})", "echo"},
      {completion, R"({"prompt": "a", "suffix": "s"})", "suffix"},
      {completion, R"({"prompt": "a", "stream": 1})", "stream"},
      {completion, R"({"prompt": "a", "stream_options": {}})", "stream_options"},
      {completion, R"({"prompt": "a", "logit_bias": {"x": 1}})", "logit_bias"},
      {completion, R"({"prompt": "a", "logit_bias": {"1": 101}})", "logit_bias"},
      {completion, R"({"prompt": "a", "model": 1})", "model"},
      {completion, R"({"prompt": "a", "cache_salt": 1})", "cache_salt"},
      {completion, R"({"prompt": "a", "priority": 0.5})", "priority"},
      {chat, R"({"prompt": "a"})", "messages"},
      {chat, R"({"messages": []})", "messages"},
      {chat, R"({"messages": ["a"]})", "messages[0]"},
      {chat, R"({"messages": [{"role": "tool", "content": "a"}]})", "messages[0]"},
      {chat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       "messages[0]"},
      {chat, R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})", "tools"},
      {chat, R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})",
       "top_logprobs"},
      {chat, R"({"messages": [{"role": "user", "content": "a"}],
                 "response_format": {"type": "json_object"}})",
       "response_format"},
  };
  for (const Refused& refused : all) {
    const auto request = parse_api_request(refused.kind, refused.body, {});
    ASSERT_FALSE(request.has_value()) << refused.body;
    EXPECT_EQ(request.error().param, refused.param) << refused.body;
    EXPECT_EQ(request.error().status, 400) << refused.body;
    EXPECT_FALSE(request.error().message.empty()) << refused.body;
  }
}

TEST(ApiKeys, AdmitWhoHasOne) {
  EXPECT_TRUE(ApiKeys().admit(""));
  const test_support::TempDir directory;
  const std::string path = directory.file("keys");
  std::ofstream(path) << "# ours\n\nalpha\r\nbeta \n";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(ApiKeys::read(path).error().code(), StatusCode::failed_precondition);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const auto keys = ApiKeys::read(path);
  ASSERT_TRUE(keys.has_value()) << keys.error().message();
  EXPECT_TRUE(keys->admit("Bearer alpha"));
  EXPECT_TRUE(keys->admit("bEARER beta"));
  EXPECT_FALSE(keys->admit("Bearer alph"));
  EXPECT_FALSE(keys->admit("Bearer "));
  EXPECT_FALSE(keys->admit("Bearer"));
  EXPECT_FALSE(keys->admit("Bearer ALPHA"));
  EXPECT_FALSE(keys->admit("Basic alpha"));
  EXPECT_FALSE(keys->admit("Bearer # ours"));
  std::ofstream(path, std::ios::trunc) << "# none\n";
  EXPECT_FALSE(ApiKeys::read(path).has_value());
  std::ofstream(path, std::ios::trunc) << "alpha\n#" << std::string(max_api_keys_bytes, 'x');
  EXPECT_EQ(ApiKeys::read(path).error().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace terrace::inference
