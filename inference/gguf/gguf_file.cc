#include "inference/gguf/gguf_file.h"

#include <utility>

#include "inference/gguf/container.h"
#include "inference/gguf/mapping.h"

namespace terrace::gguf {

struct File::State {
  std::string path;
  Mapping mapping;
  Container container;  // points into the mapping
};

Result<std::unique_ptr<File>> File::open(const std::string& path) {
  Result<Mapping> mapping = Mapping::open(path);
  if (!mapping) return error(mapping.error());
  Result<Container> container = read_container(mapping->bytes());
  if (!container) return error(container.error().with_context(path));
  return std::unique_ptr<File>(
      new File(std::make_unique<State>(State{path, std::move(*mapping), std::move(*container)})));
}

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::~File() = default;

const std::string& File::path() const { return state_->path; }
std::uint64_t File::size() const { return bytes().size(); }
std::span<const std::byte> File::bytes() const { return state_->mapping.bytes(); }
const FileIdentity& File::identity() const { return state_->mapping.identity(); }

bool File::has(std::string_view key) const { return state_->container.metadata.has(key); }
std::optional<std::uint64_t> File::unsigned_integer(std::string_view key) const {
  return state_->container.metadata.unsigned_integer(key);
}
std::optional<double> File::number(std::string_view key) const {
  return state_->container.metadata.number(key);
}
std::optional<bool> File::boolean(std::string_view key) const {
  return state_->container.metadata.boolean(key);
}
std::optional<std::string_view> File::text(std::string_view key) const {
  return state_->container.metadata.text(key);
}
std::vector<std::string_view> File::texts(std::string_view key) const {
  return state_->container.metadata.texts(key);
}
std::vector<double> File::numbers(std::string_view key) const {
  return state_->container.metadata.numbers(key);
}
std::vector<std::uint64_t> File::unsigned_integers(std::string_view key) const {
  return state_->container.metadata.unsigned_integers(key);
}

const Tensor* File::tensor(std::string_view name) const {
  const auto found = state_->container.tensor_by_name.find(name);
  if (found == state_->container.tensor_by_name.end()) return nullptr;
  return &state_->container.tensors[found->second];
}
std::span<const Tensor> File::tensors() const { return state_->container.tensors; }

}  // namespace terrace::gguf
