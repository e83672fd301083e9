# What terraced and its clients say to each other. docs/protocol.md tells the story; this file is the
# contract.
#
# Only control goes over the socket. Payload lies in arenas whose descriptors the daemon hands out
# (Arena), and is named by its offset there. Clients with KV memory of their own copy it through a
# staging region instead (Staging), which is memory shared with one client, or is written and read by
# messages where no memory can be shared.
#
# What is asked for most (match, acquire, reserve) carries keys, tokens, slots and states as packed
# little-endian bytes: one Data field each, no object a block, so that a call over 512 blocks costs
# little more than a ping of the same size.
#
# Calls on one Space take effect in the order in which they were sent. So a client that stops waiting
# for an acquire or a reserve sends the release of that lease at once: whichever answer comes later,
# nothing is held.
#
# A daemon cuts the connection of a client that sends malformed or oversized messages, or that does
# not read its answers. Limits: cache_daemon/limits.h.
@0xb912cfa8ba422828;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("terrace::protocol");

# Raised when an old client and a new daemon (or the other way round) would misread each other.
const protocolVersion :UInt32 = 3;

struct DaemonInfo {
  bootId @0 :Text;
  # New at every start. Arenas, sessions and slots of another boot mean nothing to this one.
  version @1 :Text;
  protocolVersion @2 :UInt32;
  # Before login there is no more:
  pid @3 :UInt32;
  requestBudgetMs @4 :UInt32;
  # What one inference request may lose to the cache in all.
}

interface Daemon {
  # The bootstrap capability. Nothing of the cache is reachable through it without login.

  ping @0 (data :Data, replyBytes :UInt32) -> (data :Data);
  # Gives back the first replyBytes bytes of what it was given: for measurements and to see whether
  # anybody is there. After login.

  info @1 () -> (info :DaemonInfo);

  openSessionBefore3 @2 ();
  openOperatorBefore3 @3 ();
  # What older clients call; refused with a word about versions.

  login @4 (protocolVersion :UInt32, clientName :Text, token :Text)
      -> (info :DaemonInfo, worker :Worker, viewer :Viewer, operator :Operator,
          tenant :Text, sharing :List(SharingTenant));
  # Once a connection. What the client may do is decided by what the kernel or TLS says of it and by
  # the token (empty: none), against the daemon's rules. A capability that it is not given fails
  # every call and says which role is missing.
  # tenant: whatever the client asks for, its spaces are of this one; empty: as it asks. sharing: how
  # the spaces of tenants who share with others are named; what is not listed keeps its name.
}

struct SharingTenant {
  tenant @0 :Text;
  sharedName @1 :Text;  # the tenant of the spaces' descriptors
}

interface Worker {
  openSession @0 () -> (session :Session, sessionId :UInt64);
  # Refused (OVERLOADED) while there is no device tier yet.
  # At most one a connection. The session ends when the process behind the connection (SO_PEERCRED)
  # has ended. A process that only lost its connection can still touch its slots: they are
  # quarantined until it ends or says otherwise (Session.touchesNothing).
}

interface Arena {
  # Memory that the daemon shares. The descriptor comes with this capability (getFd).

  bytes @0 () -> (bytes :UInt64);
}

interface Claim {
  # A descriptor (getFd) that a process keeps open for as long as it maps the arena it came with: it
  # tells the next daemon that the arena's memory is still in use.
}

enum MemoryKind {
  host @0;  # to be mapped
  cuda @1;  # to be imported with the CUDA driver (core/cuda/shared_device_memory.h)
}

interface Session {
  deviceArena @0 (deviceIndex :UInt16)
      -> (arena :Arena, bytes :UInt64, claim :Claim, memory :MemoryKind, deviceUuid :Text);
  # The arena that slots are offsets into. Readable and writable. Only device 0 exists for now.
  # deviceUuid names the GPU in hexadecimal digits; it is empty for host memory.

  hostArena @1 () -> (arena :Arena, bytes :UInt64);
  # Read-only for clients; bytes is 0 and arena null where there is no host tier.

  openSpace @2 (descriptor :SpaceDescriptor) -> (space :Space, digest :Data);
  # The same descriptor gives the same space, to every session whose login may name the tenant. Else
  # the login's tenant takes the place of the descriptor's; the digest is that of the result.

  touchesNothing @3 (sessionIds :List(UInt64));
  # This process no longer touches any slot of these earlier sessions of its own: their leases end.
  # Ids of other processes are ignored.

  staging @4 (bytes :UInt64, shared :Bool)
      -> (staging :Staging, bytes :UInt64, maxPieceBytes :UInt32);
  # The session's staging region, of `bytes` or as much as limits.staging_per_session allows. One a
  # session. shared: its descriptor comes with the capability (getFd), and its size is sealed; else
  # it is read and written through Staging's methods, at most maxPieceBytes at a time.
}

interface Staging {
  # Where the payload of Space.put and Space.get lies. Who uses which part when is the client's
  # business: the daemon touches what a put or a get names, until that is answered.

  write @0 (offset :UInt64, data :Data);
  read @1 (offset :UInt64, bytes :UInt32) -> (data :Data);
  # A client bounds how many of both are under way: a session that leaves more answers than
  # limits.max_queued_bytes unread is cut.
}

struct SpaceDescriptor {
  # core/space.h says what each field means.
  modelDigest @0 :Data;  # 32 bytes
  numericsId @1 :Text;
  kvDtype @2 :Text;
  layoutId @3 :Text;
  blockTokens @4 :UInt32;
  blockBytes @5 :UInt64;
  tensorParallelRank @6 :UInt32;
  tensorParallelSize @7 :UInt32;
  adapter @8 :Text;
  adapterRevision @9 :Text;
  tenant @10 :Text;
  label @11 :Text;
}

struct SealBlock {
  slot @0 :UInt64;
  parent @1 :Data;    # 32 bytes
  tokens @2 :Data;    # int32, little endian: blockTokens of them
  checksum @3 :UInt64;  # core/checksum.h, of the slot's bytes
}

interface Space {
  # Packed fields: keys are 32 bytes each, tokens int32, slots uint64; states are BlockState and
  # tiers Tier of core/tier.h, a byte each.

  match @0 (keys :Data, tokens :Data, budgetMs :UInt32)
      -> (states :Data, matchedBlocks :UInt32, partialTokens :UInt32, partialKey :Data, loadNs :UInt64,
          partialTier :UInt8);
  # Metadata only; counts as no use. tokens are those of the whole prompt, or none. states holds one
  # entry a key, pending included. partialKey is empty unless partialTokens > 0: the block that
  # shares so many leading tokens with the first missing one, fewer than blockTokens; partialTier is
  # the highest that has it. budgetMs: how long the caller waits for the answer (0: not said). Where there
  # is a Redis tier and tokens, it is asked what it has behind what is here, for a part of that.

  acquire @1 (lease :UInt64, keys :Data, prefillTokensPerSecond :Float64, deviceIndex :UInt16,
              partialTokens :UInt32, waitMs :UInt32, budgetMs :UInt32)
      -> (slots :Data, tiers :Data);
  # Holds the leading run of keys in the device tier, loading what is lower; answers when it is there.
  # The lease's number is the client's choice. A release in the meantime answers with nothing.
  # partialTokens > 0: the last key is a match's partialKey, wanted for so many tokens.
  # waitMs > 0: waits so long for keys behind the present run that other sessions are computing
  # (pending); answers early when nobody else computes the next one any more. budgetMs: how long the
  # caller waits for the answer (0: not said); blocks that come out of Redis too late for it are left out.

  reserve @2 (lease :UInt64, keys :Data, unnamed :UInt32, deviceIndex :UInt16, unlessTaken :Bool)
      -> (slots :Data, taken :Bool);
  # Slots to write to: one a key, then `unnamed` more, or fewer if the arena is full. Their contents
  # are undefined. unlessTaken: nothing, and taken is set, if the first key has been sealed or another
  # session is computing it.

  seal @3 (lease :UInt64, blocks :List(SealBlock)) -> (outcomes :Data);
  # One byte a block: 0 sealed, 1 duplicate, 2 invalid. The bytes must not change any more.

  release @4 (leases :List(UInt64));
  # The session no longer touches the slots of these leases. Unknown numbers are ignored.

  # For clients with KV memory of their own. Offsets, uint64 each and multiples of 64, are into the
  # session's staging region. Nothing is held once the call is answered.

  put @5 (parent :Data, tokens :Data, offsets :Data, checksums :Data) -> (outcomes :Data);
  # Copies consecutive blocks of one prefix into the cache: one an offset, each with its checksum
  # (core/checksum.h, uint64), `parent` being that of the first. One byte a block: PutOutcome of
  # core/put_outcome.h. Never waits for room.

  get @6 (keys :Data, offsets :Data, prefillTokensPerSecond :Float64, waitMs :UInt32,
          budgetMs :UInt32)
      -> (tiers :Data, checksums :Data);
  # Copies the leading run of keys out of the cache, one to each offset, and answers with as many
  # tiers and checksums when they are there. The other parameters are those of acquire.
}

struct BlockInfo {
  space @0 :Data;   # digest
  key @1 :Data;
  parent @2 :Data;
  depth @3 :UInt32;   # 0 for a first block
  tokens @4 :Data;
  tiers @5 :UInt8;  # bit i: the tier i of core/tier.h has a copy
  holders @6 :UInt32;  # leases
  recency @7 :UInt64;
  bytes @8 :UInt64;  # of the payload
  uses @9 :UInt8;  # requests that used it, the one that computed it among them; 255: so many or more
  createdUnixMs @10 :Int64;  # when it was sealed, to within core/block_age.h
}

const anyTier :UInt8 = 255;

struct PinInfo {
  key @0 :Data;  # the last block of the prefix
  space @1 :Data;  # digest
  tier @2 :UInt8;  # that its blocks stay in once they are there; anyTier: they stay somewhere
  expiresUnixMs @3 :Int64;  # 0: never
  blocks @4 :UInt64;
  bytes @5 :UInt64;
  whole @6 :Bool;  # all of them are in some tier: what was lost must be computed again
}

interface Viewer {
  # For people and their tools who only look. Whose login has a tenant sees that tenant's spaces, and
  # nothing of others.

  stats @0 () -> (json :Text);
  # One JSON object; docs/protocol.md lists its fields. Not for logins with a tenant.

  listBlocks @1 (from :Data, limit :UInt32) -> (blocks :List(BlockInfo), next :Data);
  # Blocks in the order of their keys, from the key `from` on (empty: from the first), at most
  # `limit` and what the daemon allows a page. `next` is where to go on, empty at the end.

  listSpaces @2 () -> (spaces :List(SpaceDescriptor));

  listPins @3 () -> (pins :List(PinInfo));

  inspect @4 (key :Data) -> (json :Text);
  # Everything that is known of one block; empty if there is none.

  explain @5 (space :Data, tokens :Data) -> (json :Text);
  # What a match of these tokens finds in the space of this digest, block for block, and why not. No
  # use is counted.

  sessions @6 () -> (json :Text);
}

interface Operator extends(Viewer) {
  # For those who also change something.

  pin @0 (key :Data, tier :UInt8, ttlMs :UInt64) -> (pin :PinInfo);
  # Keeps the prefix that ends in this block, for ttlMs (0: until unpin). Pinning the same key again
  # changes the pin.

  unpin @1 (key :Data);

  dropSpace @2 (digest :Data) -> (blocks :UInt64);
  # Every block of the space leaves every tier. Answers, with how many they were, when that is
  # durable. The space is empty and usable then.

  evict @3 (key :Data) -> (blocks :UInt64);
  # This block and all that follow it leave every tier. Answers, with how many they were, when that is
  # durable. Refused for what a pin holds.

  warm @4 (space :Data, keys :Data, tokens :Data, tier :UInt8) -> (tiers :Data);
  # Brings the leading run of a prefix's keys into the tier (device or host), as an acquire would: a
  # use. What the device tier has it need not bring to the host. Answers when it is there, with the
  # highest tier that each was in before. tokens are those of all keys, or none: with them Redis is
  # asked for what is not known here.

  kick @5 (sessionId :UInt64);
  # Cuts a session's connection. What it holds stays quarantined until its process has ended.

  readBlock @6 (key :Data, offset :UInt64, bytes :UInt32)
      -> (block :BlockInfo, checksum :UInt64, createdUnixMs :Int64, data :Data);
  # A piece of a block's payload: up to `bytes` from `offset` on, as far as the daemon allows a call.
  # The block is copied as a whole and verified, out of the highest tier of this host where it does;
  # what only Redis has is not read. No use is counted. checksum: of the whole payload; createdUnixMs:
  # 0 if it is not known. A connection that goes on with the pieces of one block has it read once.

  importSpace @7 (descriptor :SpaceDescriptor) -> (digest :Data);
  # Makes a space known, so that blocks of it can be imported.

  importBlock @8 (header :Data, offset :UInt64, data :Data)
      -> (outcome :UInt8, reason :Text, maxPieceBytes :UInt32);
  # A block from elsewhere, in pieces of at most maxPieceBytes from offset 0 on, each sent when the one
  # before is answered. header: a record's (core/record.h), of a payload that is stored as it is; the
  # same with each piece. Without data at offset 0: asks whether the daemon wants it. outcome:
  # core/import_outcome.h; `wanted` until the last piece is there. The daemon verifies everything, and
  # keeps nothing of a block that is not finished: one a connection, in memory of its own.

  verifyBlocks @9 (from :Data, blocks :UInt32, bytes :UInt64, remove :Bool)
      -> (json :Text, next :Data);
  # Reads every copy on this host of the blocks from the key `from` on (empty: the first), of at most
  # `blocks` blocks and about `bytes`, or what the daemon allows a call, one after the other. What does
  # not verify is listed and, with remove, dropped. next is where to go on, empty at the end.
}
