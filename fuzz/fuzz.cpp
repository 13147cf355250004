#include "fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "support/memory_file.h"

#include "espalier/base/checked.h"
#include "espalier/codec/hash.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/format/file_set.h"
#include "espalier/walker.h"

namespace espalier::fuzz {
namespace {

// The results of accessors must be used, or the calls are optimised away.
volatile std::uint64_t sink = 0;

void use(std::uint64_t value) { sink = sink + value; }
void use(std::string_view text) {
  for (const char c : text) use(static_cast<unsigned char>(c));
}
void use(ByteSpan bytes) {
  for (const std::byte b : bytes) use(std::to_integer<std::uint64_t>(b));
}

void visit_tensor(const TensorRef& tensor) {
  use(dtype_name(tensor.dtype()));
  for (const std::uint64_t axis : tensor.shape()) use(axis);
  for (const std::string_view name : tensor.axis_names()) use(name);
  const BlockType block = tensor.block();
  use(block.name);
  require((tensor.dtype() == DType::kOpaque) == (block.elements != 0), "a block without opaque");
  use(tensor.elements());
  require(tensor.is_placeholder() ? tensor.stored_bytes() == 0
                                  : tensor.stored_bytes() <= tensor.storage_bytes(),
          "more bytes are stored than there are");
  require(
      tensor.chunk_count() == 0 || tensor.first_chunk() < tensor.catalog().tables().chunks.size(),
      "a chunk is out of range");
  if (const auto extent = tensor.raw_extent()) {
    require(extent->length == 0 || range_fits(extent->offset, extent->length,
                                              tensor.catalog().files()[extent->file].length),
            "a tensor reaches past the end of the file");
    require(extent->length == tensor.bytes(), "a raw tensor has another size");
  }
  if (const auto hash = tensor.content_hash()) use(hash->low);
}

void visit_node(const NodeRef& node) {
  if (const auto label = node.label()) use(*label);
  if (const auto value = node.as_bool()) use(*value ? 1 : 0);
  if (const auto value = node.as_int64()) use(static_cast<std::uint64_t>(*value));
  if (const auto value = node.as_bigint()) use(value->to_decimal());
  if (const auto value = node.as_double()) use(*value > 0 ? 1 : 0);
  if (const auto value = node.as_complex()) use(value->real() > 0 ? 1 : 0);
  if (const auto value = node.as_string()) use(*value);
  if (const auto value = node.as_bytes()) use(*value);
  if (const auto tensor = node.tensor()) visit_tensor(*tensor);
  for (std::uint32_t i = 0; i < node.size(); ++i) {
    const auto found = node.find(node.key(i));
    require(found && *found == node.child(i), "a child is not found under its key");
  }
}

void visit_tree(const NodeRef& root) {
  for (Walker walk(root); walk.next();) {
    visit_node(walk.node());
    const auto found = root.at(walk.path());
    require(found && *found == walk.node(), "a key path does not lead back to its node");
  }
}

}  // namespace

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "FINDING: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

std::vector<std::byte> copy_input(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  return {bytes, bytes + size};
}

Result<Checkpoint> open_any(ByteSpan file) {
  AnyOpener opener({.file_size = file.size()});
  if (auto ok = opener.feed({0, 0, file.size()}, file); !ok) return propagate(ok);
  return opener.finish();
}

bool is_one_file(const Checkpoint& checkpoint) { return checkpoint.catalog().files().size() == 1; }

Limits tight_limits(testing::Random& random) {
  Limits limits;
  const auto tighten = [&](auto& limit, std::uint64_t most) {
    if (random.one_in(3))
      limit = static_cast<std::remove_reference_t<decltype(limit)>>(random.below(most));
  };
  tighten(limits.index_bytes, 4096);
  tighten(limits.nodes, 16);
  tighten(limits.depth, 4);
  tighten(limits.path_bytes, 64);
  tighten(limits.text_bytes, 256);
  tighten(limits.rank, 4);
  tighten(limits.bigint_bytes, 16);
  tighten(limits.foreign_header_bytes, 1024);
  tighten(limits.zip_directory_bytes, 1024);
  tighten(limits.pickle_bytes, 1024);
  tighten(limits.gguf_header_bytes, 1024);
  return limits;
}

void check_limited(const Result<Checkpoint>& verdict, const Result<Checkpoint>& limited) {
  if (!limited && limited.error().code == ErrorCode::kLimitExceeded) return;
  require(verdict.has_value() == limited.has_value(), "limits change whether a file opens");
  if (verdict) return;
  // The message of a refused pickle names the code in the bytes that were read, and a limit says
  // how many those are.
  Error expected = verdict.error();
  expected.message = limited.error().message;
  require(expected == limited.error(), "limits change an error");
}

Result<Checkpoint> check_opening(ByteSpan input,
                                 const std::function<Result<Checkpoint>(const Drive&)>& open) {
  auto checkpoint = open({});
  testing::Random random(hash128(input).low);
  // One of them: a campaign tries three times as many inputs so, and each of them in every way that
  // others like it do not.
  switch (random.below(3)) {
    case 0:
      check_limited(checkpoint, open({.limits = tight_limits(random)}));
      break;
    case 1: {
      const auto in_pieces = open({.piece = 1 + random.below(100)});
      require(checkpoint.has_value() == in_pieces.has_value(), "pieces change the verdict");
      require(checkpoint || checkpoint.error() == in_pieces.error(), "pieces change the error");
      break;
    }
    default: {
      const auto nested = open({.nest = true});
      require(nested.has_value() || !checkpoint, "a file that opens does not open nested");
      if (nested) visit(*nested);
      break;
    }
  }
  if (!checkpoint) return checkpoint;
  visit(*checkpoint);
  if (!is_one_file(*checkpoint) || checkpoint->catalog().has_hashes()) return checkpoint;
  for (std::uint32_t i = 0; i < checkpoint->tensor_count(); ++i) {
    const TensorRef tensor = checkpoint->tensor(i);
    if (tensor.is_placeholder()) continue;
    require(testing::read_tensor(input, tensor).has_value(),
            "a tensor of a file without hashes cannot be read");
  }
  return checkpoint;
}

void visit(const Checkpoint& checkpoint) {
  visit_tree(checkpoint.state());
  visit_tree(checkpoint.metadata());
  for (std::uint32_t i = 0; i < checkpoint.tensor_count(); ++i) visit_tensor(checkpoint.tensor(i));
}

}  // namespace espalier::fuzz
