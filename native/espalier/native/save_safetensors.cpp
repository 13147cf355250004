#include "espalier/native/save_safetensors.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "espalier/format/tables.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/native/write_file.h"

namespace espalier {
namespace {

// The part of a tensor that one thread produces and writes at a time.
struct Part {
  const SafetensorsTensor* tensor;
  std::uint64_t begin;
  std::uint64_t length;
};

std::vector<Part> divide(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<Part> parts;
  for (const SafetensorsTensor& tensor : tensors) {
    for (std::uint64_t begin = 0; begin < tensor.extent.length; begin += kChunkBytes) {
      parts.push_back({&tensor, begin, std::min(kChunkBytes, tensor.extent.length - begin)});
    }
  }
  return parts;
}

class SafetensorsContents : public FileContents {
 public:
  SafetensorsContents(const SafetensorsPlan& plan, unsigned threads)
      : plan_(plan), parts_(divide(plan.tensors)), scratch_(threads) {}

  std::uint64_t reserved_bytes() const override { return plan_.file_length; }
  std::uint64_t total_bytes() const override { return plan_.file_length; }
  std::uint64_t worker_bytes() const override {
    std::uint64_t most = 0;
    for (const Part& part : parts_) {
      if (!part.tensor->data.memory()) most = std::max(most, part.length);
    }
    return most;
  }
  std::size_t pieces() const override { return parts_.size(); }
  std::uint64_t piece_bytes(std::size_t i) const override { return parts_[i].length; }
  bool is_streamed(std::size_t i) const override { return parts_[i].tensor->data.is_streamed(); }

  Result<void> read(unsigned worker, std::size_t i) override {
    const auto [tensor, begin, length] = parts_[i];
    scratch_[worker].resize(static_cast<std::size_t>(length));
    auto ok = tensor->data.read(begin, scratch_[worker]);
    if (!ok && ok.error().path.empty()) ok.error().path = tensor->name;
    return ok;
  }

  Result<ByteSpan> make(unsigned worker, std::size_t i) override {
    const auto [tensor, begin, length] = parts_[i];
    if (const auto memory = tensor->data.memory()) {
      return memory->subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
    }
    if (!is_streamed(i)) {
      if (auto ok = read(worker, i); !ok) return propagate(ok);
    }
    return ByteSpan(scratch_[worker]);
  }

  bool is_placed_in_order() const override { return false; }
  std::uint64_t place(std::size_t i) override {
    return parts_[i].tensor->extent.offset + parts_[i].begin;
  }
  Result<void> write_front(Sink& sink) override { return sink.write(0, plan_.header); }

 private:
  const SafetensorsPlan& plan_;
  const std::vector<Part> parts_;
  std::vector<std::vector<std::byte>> scratch_;
};

// `target` is a path or a sink.
template <class Target>
Result<Losses> save_to(Target& target, const Value& state, Unrepresentable unrepresentable,
                       const SaveOptions& options) try {
  if (options.compression_level != kNoCompression) {
    return fail(
        ErrorCode::kInvalidArgument,
        "safetensors files are never compressed; leave the level at 0, or save as Espalier");
  }
  auto plan = plan_safetensors(state, options.metadata, {unrepresentable, options.limits});
  if (!plan) return propagate(plan);
  SafetensorsContents contents(*plan, thread_count(options.threads));
  if (auto written = write_file(target, contents, options); !written) return propagate(written);
  return std::move(plan->dropped);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace

Result<Losses> save_safetensors(const std::filesystem::path& path, const Value& state,
                                Unrepresentable unrepresentable, const SaveOptions& options) {
  return save_to(path, state, unrepresentable, options);
}

Result<Losses> save_safetensors(Sink& sink, const Value& state, Unrepresentable unrepresentable,
                                const SaveOptions& options) {
  return save_to(sink, state, unrepresentable, options);
}

}  // namespace espalier
