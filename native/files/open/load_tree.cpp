#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "espalier/codec/compression_level.h"
#include "espalier/format/access.h"
#include "espalier/read/to_value.h"
#include "espalier/walker.h"
#include "files/open/lazy_tensors.h"
#include "files/open/private_source.h"
#include "files/open/reading.h"
#include "files/os/about_file.h"
#include "files/os/out_of_memory.h"

namespace espalier {
namespace {

tl::unexpected<Error> too_much(std::uint64_t limit, std::string path) {
  return fail(ErrorCode::kLimitExceeded,
              "loading this takes more memory than the " + counted(limit, "byte") +
                  " that Limits::decoded_bytes allows; load parts of it",
              Error::kNoOffset, std::move(path));
}

}  // namespace

// The tensors below a node, each once: those in the mapping, and those to read into memory.
struct CheckpointFile::Loading {
  std::vector<TensorRef> in_place;
  std::vector<Reading> readings;
  std::vector<std::shared_ptr<std::byte>> memory;             // of each reading
  std::unordered_map<std::uint32_t, std::size_t> reading_of;  // by tensor number
};

Result<CheckpointFile::Loading> CheckpointFile::prepare_loading(
    std::span<const NodeRef> nodes) const {
  Loading loading;
  std::vector<bool> seen(checkpoint_.tensor_count());
  std::uint64_t left = options_.limits.decoded_bytes;
  const auto prepare = [&](const TensorRef& tensor) -> Result<void> {
    if (seen[tensor.number()] || tensor.is_placeholder()) return {};
    seen[tensor.number()] = true;
    if (is_in_place(tensor)) {
      loading.in_place.push_back(tensor);
      return {};
    }
    auto plan = plan_read(tensor, {});
    if (!plan) return propagate(plan);
    // Many small chunks can claim as much as one large tensor.
    if (plan->bytes() > left) {
      return too_much(options_.limits.decoded_bytes, tensor_path(tensor));
    }
    left -= plan->bytes();
    auto memory = memory_for(tensor, plan->bytes(), options_.memory);
    if (!memory) return propagate(memory);
    loading.reading_of.emplace(tensor.number(), loading.readings.size());
    const MutableByteSpan out(memory->get(), static_cast<std::size_t>(plan->bytes()));
    loading.readings.push_back({std::move(*plan), out});
    loading.memory.push_back(std::move(*memory));
    return {};
  };
  for (const NodeRef& node : nodes) {
    for (Walker walk(node); walk.next();) {
      const auto tensor = walk.node().tensor();
      if (!tensor) continue;
      if (auto ok = prepare(*tensor); !ok) return propagate(ok);
    }
  }
  return loading;
}

Result<Value> CheckpointFile::load(const NodeRef& node, const ReadOptions& options) const {
  auto loaded = load(std::span(&node, 1), options);
  if (!loaded) return propagate(loaded);
  return std::move(loaded->front());
}

Result<std::vector<Value>> CheckpointFile::load(std::span<const NodeRef> nodes,
                                                const ReadOptions& options) const {
  return load(nodes, options, false);
}

Result<std::vector<Value>> CheckpointFile::load_writable(std::span<const NodeRef> nodes,
                                                         const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<std::vector<Value>> {
    // A process can have only so many mappings: programs that load small tensors one by one get
    // memory.
    constexpr std::uint64_t kLeastMapped = std::uint64_t{1} << 20;
    std::uint64_t bytes = 0;
    for (const NodeRef& node : nodes) {
      for (Walker walk(node); walk.next();) {
        const auto tensor = walk.node().tensor();
        if (tensor && is_in_place(*tensor)) bytes += tensor->bytes();
      }
    }
    CheckpointFile own = *this;
    own.source_ = bytes < kLeastMapped
                      ? without_mappings(source_)
                      : map_privately(source_, checkpoint_.catalog().files().size());
    return own.load(nodes, options, true);
  });
}

Result<std::vector<Value>> CheckpointFile::load(std::span<const NodeRef> nodes,
                                                const ReadOptions& options,
                                                bool is_writable) const {
  return about_file(shared_->path, [&]() -> Result<std::vector<Value>> {
    if (auto ok = check_no_conversion(options); !ok) return propagate(ok);
    const auto loading = prepare_loading(nodes);
    if (!loading) return propagate(loading);
    const bool checks = options.check == Check::kHashes && checkpoint_.catalog().has_hashes();
    Read read(options);
    read.expect(loading->readings);
    if (checks) {
      for (const TensorRef& tensor : loading->in_place) read.expect(tensor.stored_bytes());
    }
    if (auto ok = read_all(loading->readings, read); !ok) return propagate(ok);
    if (checks) {
      if (auto ok = check_in_place(loading->in_place, read); !ok) return propagate(ok);
    }
    return to_values(nodes, [&](const TensorRef& tensor) -> Result<TensorData> {
      const auto at = loading->reading_of.find(tensor.number());
      if (at != loading->reading_of.end()) {
        return TensorData::kept_writable(loading->readings[at->second].out,
                                         loading->memory[at->second]);
      }
      auto in_place = view(tensor, {.check = Check::kNothing});
      if (!in_place) return propagate(in_place);
      const auto bytes = in_place->bytes();
      if (!is_writable) return with_place(tensor, TensorData::kept(bytes, bytes.keeper()));
      // It is the private mapping, which Source::mapping() shows read-only as it does any.
      return TensorData::kept_writable({const_cast<std::byte*>(bytes.data()), bytes.size()},
                                       bytes.keeper());
    });
  });
}

Result<Value> CheckpointFile::load_lazily(const NodeRef& node) const {
  return about_file(shared_->path,
                    [&]() -> Result<Value> { return to_value(node, LazyTensors(*this)); });
}

Result<Contents> CheckpointFile::contents() const {
  return about_file(shared_->path, [&]() -> Result<Contents> {
    auto state = load_lazily(this->state());
    if (!state) return propagate(state);
    const bool is_compressed = has_compressed(checkpoint_.catalog().tables());
    return Contents{.state = std::move(*state),
                    .metadata = to_value(metadata()),
                    .compression_level = is_compressed ? kFastCompression : kNoCompression};
  });
}

Result<Contents> load_contents(const FilePath& path, const OpenFileOptions& options) {
  const auto file = CheckpointFile::open(path, options);
  return file ? file->contents() : propagate(file);
}

Result<TensorData> CheckpointFile::data_lazily(const TensorRef& tensor) const {
  return LazyTensors(*this)(tensor);
}

// Data that a save may take over as they are stored. Not for bytes in memory of their own: those
// were checked, and the file may have changed since.
TensorData CheckpointFile::with_place(const TensorRef& tensor, TensorData data) const {
  if (!checkpoint_.catalog().has_hashes()) return data;
  return std::move(data).also_stored(std::make_shared<const StoredTensor>(
      StoredTensor{checkpoint_.share(), tensor.number(), source_}));
}

}  // namespace espalier
