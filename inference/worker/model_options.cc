#include "inference/worker/model_options.h"

#include <map>

#include "inference/worker/backend.h"

namespace terrace::inference {

namespace {

const std::map<std::string, Compute> compute_names = {{"bf16", Compute::bf16},
                                                      {"f32", Compute::f32}};
const std::map<std::string, KvDtype> kv_names = {{"bf16", KvDtype::bf16}, {"f32", KvDtype::f32}};
const std::map<std::string, Isa> isa_names = {{"auto", Isa::automatic},
                                              {"portable", Isa::portable},
                                              {"avx2", Isa::avx2},
                                              {"avx512", Isa::avx512},
                                              {"avx512_bf16", Isa::avx512_bf16}};

}  // namespace

CLI::Option* add_model_options(CLI::App& command, std::string& path, ModelOptions& options) {
  CLI::Option* model =
      command.add_option("--model", path, "GGUF file of a llama-architecture model")->required();
  add_compute_options(command, options);
  return model;
}

void add_compute_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--compute", options.compute, "Precision of products (default bf16)")
      ->transform(CLI::CheckedTransformer(compute_names).description("bf16|f32"));
  command.add_option("--kv", options.kv, "Precision of the KV cache (default bf16)")
      ->transform(CLI::CheckedTransformer(kv_names).description("bf16|f32"));
  command.add_option("--threads", options.threads, "Threads; 0 is one a core (default)")
      ->check(CLI::Range(0, 1024));
  command.add_option("--isa", options.isa, "Instruction set; auto picks the best one")
      ->transform(
          CLI::CheckedTransformer(isa_names).description("auto|portable|avx2|avx512|avx512_bf16"));
}

void add_backend_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option_function<std::string>(
          "--backend",
          [&options](const std::string& text) {
            const auto backend = config::parse_worker_backend(text);
            if (!backend)
              throw CLI::ValidationError("--backend", "expected auto, cpu, cuda or cuda:N");
            options.backend = backend_choice(*backend);
          },
          "What computes: cpu (default), cuda, cuda:N, or auto: a GPU if one can be used")
      ->type_name("auto|cpu|cuda[:N]");
}

}  // namespace terrace::inference
