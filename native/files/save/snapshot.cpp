#include "files/save/snapshot.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "espalier/base/counted.h"
#include "files/os/out_of_memory.h"
#include "files/os/parallel.h"
#include "files/os/snapshot_memory.h"

namespace espalier {
namespace {

// Bytes that a thread copies at a time.
constexpr std::size_t kShare = std::size_t{8} << 20;
// Every copy begins on a cache line.
constexpr std::size_t kAlignment = 64;

struct Copying {
  ByteSpan from;
  std::size_t offset = 0;  // in the block
};

struct Share {
  const std::byte* from;
  std::byte* to;
  std::size_t size;
};

// Calls `visit` for each node that holds a tensor in memory.
template <class Visit>
void for_each_in_memory(Value& state, const Visit& visit) {
  std::vector<std::span<Value>> pending = {std::span(&state, 1)};
  while (!pending.empty()) {
    const std::span<Value> level = pending.back();
    pending.pop_back();
    for (Value& value : level) {
      const auto tensor = value.as_tensor();
      if (tensor != nullptr && tensor->data.memory()) visit(value, tensor);
      if (!value.children().empty()) pending.push_back(value.children());
    }
  }
}

}  // namespace

Result<Value> snapshot(Value state, const Threads& threads, const std::atomic<bool>* cancel) try {
  std::unordered_map<const Tensor*, Copying> copies;
  std::uint64_t total = 0;
  for_each_in_memory(state, [&](const Value&, const std::shared_ptr<const Tensor>& tensor) {
    const ByteSpan bytes = *tensor->data.memory();
    if (!copies.try_emplace(tensor.get(), Copying{bytes, total}).second) return;
    total += (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  });
  const std::shared_ptr<std::byte[]> block = snapshot_memory(total);
  if (block == nullptr) {
    return fail(ErrorCode::kOutOfMemory, "cannot allocate " + counted(total, "byte") +
                                             " for a copy of the state; borrow its tensors");
  }
  std::vector<Share> shares;
  for (const auto& [tensor, copying] : copies) {
    for (std::size_t begin = 0; begin < copying.from.size(); begin += kShare) {
      shares.push_back({copying.from.data() + begin, block.get() + copying.offset + begin,
                        std::min(kShare, copying.from.size() - begin)});
    }
  }
  // In the order of the block, whose pages are new the first time.
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.to < b.to; });
  auto copied = parallel_for(shares.size(), threads, [&](unsigned, std::size_t i) -> Result<void> {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kCancelled, "the save was cancelled; nothing was saved");
    }
    std::memcpy(shares[i].to, shares[i].from, shares[i].size);
    return {};
  });
  if (!copied) return propagate(copied);
  std::unordered_map<const Tensor*, std::shared_ptr<const Tensor>> replacements;
  for_each_in_memory(state, [&](Value& value, const std::shared_ptr<const Tensor>& tensor) {
    auto& replacement = replacements[tensor.get()];
    if (replacement == nullptr) {
      const auto [from, offset] = copies.at(tensor.get());
      Tensor made = *tensor;
      made.data = TensorData::kept({block.get() + offset, from.size()}, block);
      replacement = std::make_shared<const Tensor>(std::move(made));
    }
    Value replaced = Value::tensor(replacement);
    if (value.has_label()) replaced = std::move(replaced).labelled(std::string(value.label()));
    value = std::move(replaced);
  });
  return state;
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
