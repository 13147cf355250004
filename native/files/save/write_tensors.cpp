#include "files/save/write_tensors.h"

#include <algorithm>
#include <vector>

#include "espalier/detail/catalog.h"
#include "files/os/parallel.h"
#include "files/save/write_file.h"

namespace espalier {
namespace {

// The part of a tensor that one thread produces and writes at a time.
struct Part {
  const TensorPlace* tensor;
  std::uint64_t begin;
  std::uint64_t length;
};

std::vector<Part> divide(std::span<const TensorPlace> tensors) {
  std::vector<Part> parts;
  for (const TensorPlace& tensor : tensors) {
    for (std::uint64_t begin = 0; begin < tensor.extent.length; begin += kChunkBytes) {
      parts.push_back({&tensor, begin, std::min(kChunkBytes, tensor.extent.length - begin)});
    }
  }
  return parts;
}

class TensorContents : public FileContents {
 public:
  TensorContents(ByteSpan front, std::span<const TensorPlace> tensors, std::uint64_t file_length,
                 unsigned threads)
      : front_(front), file_length_(file_length), parts_(divide(tensors)), scratch_(threads) {}

  std::uint64_t reserved_bytes() const override { return file_length_; }
  std::uint64_t total_bytes() const override { return file_length_; }
  std::uint64_t worker_bytes() const override {
    std::uint64_t most = 0;
    for (const Part& part : parts_) {
      if (!part.tensor->data->memory()) most = std::max(most, part.length);
    }
    return most;
  }
  std::size_t pieces() const override { return parts_.size(); }
  std::uint64_t piece_bytes(std::size_t i) const override { return parts_[i].length; }
  bool is_streamed(std::size_t i) const override { return parts_[i].tensor->data->is_streamed(); }

  Result<void> read(unsigned worker, std::size_t i) override {
    const auto [tensor, begin, length] = parts_[i];
    scratch_[worker].resize(static_cast<std::size_t>(length));
    auto ok = tensor->data->read(begin, scratch_[worker]);
    if (!ok && ok.error().path.empty()) ok.error().path = tensor->name;
    return ok;
  }

  Result<ByteSpan> make(unsigned worker, std::size_t i) override {
    const auto [tensor, begin, length] = parts_[i];
    if (const auto memory = tensor->data->memory()) {
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
  Result<void> write_front(Sink& sink) override { return sink.write(0, front_); }

 private:
  const ByteSpan front_;
  const std::uint64_t file_length_;
  const std::vector<Part> parts_;
  std::vector<std::vector<std::byte>> scratch_;
};

}  // namespace

Result<void> write_tensors(const std::filesystem::path& path, ByteSpan front,
                           std::span<const TensorPlace> tensors, std::uint64_t file_length,
                           const SaveOptions& options) {
  TensorContents contents(front, tensors, file_length, thread_count(options.threads));
  return write_file(path, contents, options);
}

Result<void> write_tensors(Sink& sink, ByteSpan front, std::span<const TensorPlace> tensors,
                           std::uint64_t file_length, const SaveOptions& options) {
  TensorContents contents(front, tensors, file_length, thread_count(options.threads));
  return write_file(sink, contents, options);
}

}  // namespace espalier
