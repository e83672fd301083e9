#include "protocol/descriptor.h"

#include "protocol/packed.h"

namespace terrace::protocol {
namespace {

std::string text(capnp::Text::Reader from) { return {from.begin(), from.size()}; }

}  // namespace

void write_descriptor(const terrace::SpaceDescriptor& from, SpaceDescriptor::Builder to) {
  to.setModelDigest(pack(from.model_digest));
  to.setNumericsId(from.numerics_id);
  to.setKvDtype(from.kv_dtype);
  to.setLayoutId(from.layout_id);
  to.setBlockTokens(from.block_tokens);
  to.setBlockBytes(from.block_bytes);
  to.setTensorParallelRank(from.tensor_parallel_rank);
  to.setTensorParallelSize(from.tensor_parallel_size);
  to.setAdapter(from.adapter);
  to.setAdapterRevision(from.adapter_revision);
  to.setTenant(from.tenant);
  to.setLabel(from.label);
}

Result<terrace::SpaceDescriptor> read_descriptor(SpaceDescriptor::Reader from) {
  const auto digest = unpack_key(from.getModelDigest());
  if (!digest) return error(StatusCode::invalid_argument, "model digest: expected 32 bytes");
  terrace::SpaceDescriptor to;
  to.model_digest = digest->bytes;
  to.numerics_id = text(from.getNumericsId());
  to.kv_dtype = text(from.getKvDtype());
  to.layout_id = text(from.getLayoutId());
  to.block_tokens = from.getBlockTokens();
  to.block_bytes = from.getBlockBytes();
  to.tensor_parallel_rank = from.getTensorParallelRank();
  to.tensor_parallel_size = from.getTensorParallelSize();
  to.adapter = text(from.getAdapter());
  to.adapter_revision = text(from.getAdapterRevision());
  to.tenant = text(from.getTenant());
  to.label = text(from.getLabel());
  return to;
}

}  // namespace terrace::protocol
