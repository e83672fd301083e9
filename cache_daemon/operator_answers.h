// What the answers to operators have in common.
#pragma once

#include <capnp/blob.h>
#include <kj/exception.h>

#include "core/block_key.h"
#include "core/status.h"
#include "protocol/terrace.capnp.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

// Throws a kj::Exception for what is no key.
BlockKey read_key(capnp::Data::Reader from);

void write_block(const storage::BlockInfo& from, protocol::BlockInfo::Builder to);

// What the cache refuses, as the caller's library reads it.
kj::Exception refusal(const Status& status);

void write_pin(const storage::PinInfo& from, protocol::PinInfo::Builder to);

}  // namespace terrace::daemon
