#include "support/memory_file.h"

#include <algorithm>

#include "espalier/read/fetch.h"
#include "espalier/read/opener.h"
#include "espalier/read/to_value.h"
#include "espalier/write/writer.h"

namespace espalier::testing {

Result<std::vector<std::byte>> write_file(const Value& state, const Value& metadata,
                                          const WriteOptions& options) {
  auto writer = Writer::plan(state, metadata, options);
  if (!writer) return propagate(writer);
  std::vector<std::byte> file(static_cast<std::size_t>(writer->file_length()));
  Writer::Scratch scratch;
  for (std::size_t i = 0; i < writer->pieces().size(); ++i) {
    auto bytes = writer->make(i, scratch);
    if (!bytes) return propagate(bytes);
    std::copy(bytes->begin(), bytes->end(),
              file.begin() + static_cast<std::ptrdiff_t>(writer->place(i).offset));
  }
  auto front = writer->finish();
  if (!front) return propagate(front);
  file.resize(static_cast<std::size_t>(writer->file_length()));
  std::copy(front->header.begin(), front->header.end(), file.begin());
  std::copy(front->index.begin(), front->index.end(), file.begin() + kHeaderBytes);
  return file;
}

Result<Checkpoint> open_file(ByteSpan file, const Limits& limits) {
  Opener opener({.file_size = file.size(), .limits = limits});
  if (auto ok = opener.feed({0, 0, file.size()}, file); !ok) return propagate(ok);
  return opener.finish();
}

Result<std::vector<std::byte>> read_tensor(ByteSpan file, const TensorRef& tensor,
                                           std::span<const Slice> slices) {
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan) return propagate(plan);
  // Not zeros, so that bytes left out by a read are noticed.
  std::vector<std::byte> bytes(static_cast<std::size_t>(plan->bytes()), std::byte{0xA5});
  Fetch fetch(std::move(*plan), bytes);
  if (auto ok = fetch.feed({0, 0, file.size()}, file); !ok) return propagate(ok);
  if (auto ok = fetch.finish(); !ok) return propagate(ok);
  return bytes;
}

Result<Value> load_tree(ByteSpan file, const NodeRef& node) {
  return to_value(node, [&](const TensorRef& tensor) -> Result<TensorData> {
    auto bytes = read_tensor(file, tensor);
    if (!bytes) return propagate(bytes);
    return TensorData::owned(std::move(*bytes));
  });
}

}  // namespace espalier::testing
