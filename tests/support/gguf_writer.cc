#include "tests/support/gguf_writer.h"

#include <fstream>
#include <utility>

namespace terrace::test_support {

void GgufWriter::add_raw(const std::string& key, std::uint32_t type, std::string_view value) {
  metadata_.put<std::string>(key).put<std::uint32_t>(type).append(value);
  ++metadata_count_;
}

void GgufWriter::add_raw_tensor(const std::string& name, std::uint32_t type,
                                const std::vector<std::uint64_t>& dims, std::uint64_t offset) {
  tensor_table_.put<std::string>(name).put<std::uint32_t>(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t dim : dims) tensor_table_.put<std::uint64_t>(dim);
  tensor_table_.put<std::uint32_t>(type).put<std::uint64_t>(offset);
  ++tensor_count_;
}

void GgufWriter::add_tensor(const std::string& name, gguf::TensorType type,
                            const std::vector<std::uint64_t>& dims, std::string data) {
  add_raw_tensor(name, static_cast<std::uint32_t>(type), dims, data_bytes_);
  data.resize(round_up(data.size(), alignment), '\0');
  data_bytes_ += data.size();
  data_.push_back(std::move(data));
}

std::string GgufWriter::header() const {
  return ByteSink()
      .append(magic)
      .put<std::uint32_t>(version)
      .put<std::uint64_t>(tensor_count_ + extra_tensors)
      .put<std::uint64_t>(metadata_count_ + extra_metadata)
      .append(metadata_.bytes())
      .append(tensor_table_.bytes())
      .bytes();
}

std::string GgufWriter::data_padding(std::size_t written) const {
  return std::string(data_.empty() ? 0 : round_up(written, alignment) - written, '\0');
}

std::string GgufWriter::bytes() const {
  std::string all = header();
  all += data_padding(all.size());
  for (const std::string& data : data_) all += data;
  return all;
}

Status GgufWriter::write(const std::string& path) const {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const std::string head = header();
  file << head << data_padding(head.size());
  for (const std::string& data : data_) file << data;
  file.close();
  return file ? Status() : Status(StatusCode::io_error, "could not write " + path);
}

Status write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  return file ? Status() : Status(StatusCode::io_error, "could not write " + path);
}

}  // namespace terrace::test_support
