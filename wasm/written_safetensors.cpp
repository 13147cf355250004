// safetensors files for abi.h.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "written_file.h"

#include "espalier/detail/catalog.h"
#include "espalier/foreign/safetensors/writer.h"

namespace espalier::abi {
namespace {

// Few enough that a page's memory does not notice.
constexpr std::uint64_t kMostBytes = 2 * kChunkBytes;

class WrittenSafetensors : public WrittenFile {
 public:
  explicit WrittenSafetensors(SafetensorsPlan plan) : plan_(std::move(plan)) {
    // Whole chunks, so that those of other checkpoints are decoded once.
    for (std::uint32_t i = 0; i < plan_.tensors.size(); ++i) {
      const std::uint64_t length = plan_.tensors[i].extent.length;
      for (std::uint64_t begin = 0; begin < length; begin += kChunkBytes) {
        const std::uint64_t part = std::min(kChunkBytes, length - begin);
        if (pieces_.empty() || pieces_.back().length + part > kMostBytes) {
          pieces_.push_back({.tensor = i, .begin = begin});
        }
        pieces_.back().length += part;
      }
    }
  }

  std::uint64_t length() const override { return plan_.file_length; }
  std::uint32_t pieces() const override { return tensor_pieces() + 1; }
  std::uint64_t piece_bytes(std::uint32_t i) const override {
    return i < tensor_pieces() ? pieces_[i].length : 0;
  }

  std::vector<Need> needs(std::uint32_t i) const override {
    std::vector<Need> all;
    if (i >= tensor_pieces()) return all;
    std::uint64_t begin = pieces_[i].begin;
    std::uint64_t rest = pieces_[i].length;
    for (std::uint32_t tensor = pieces_[i].tensor; rest > 0; ++tensor) {
      const SafetensorsTensor& of = plan_.tensors[tensor];
      const std::uint64_t length = std::min(of.extent.length - begin, rest);
      if (length > 0) all.push_back({&of.data, false, {0, begin, length}});
      begin = 0;
      rest -= length;
    }
    return all;
  }

  Result<Made> make(std::uint32_t i) override {
    if (i >= tensor_pieces()) return Made{plan_.header, 0};
    const Piece& piece = pieces_[i];
    room_.resize(static_cast<std::size_t>(piece.length));
    std::size_t filled = 0;
    for (const Need& need : needs(i)) {
      const auto length = static_cast<std::size_t>(need.extent.length);
      auto ok = need.data->read(need.extent.offset, MutableByteSpan(room_).subspan(filled, length));
      if (!ok) {
        if (ok.error().path.empty()) ok.error().path = name_at(piece, filled);
        return propagate(ok);
      }
      filled += length;
    }
    return Made{ByteSpan(room_), plan_.tensors[piece.tensor].extent.offset + piece.begin};
  }

 private:
  struct Piece {
    std::uint32_t tensor = 0;  // the first
    std::uint64_t begin = 0;   // in it
    std::uint64_t length = 0;
  };

  std::uint32_t tensor_pieces() const { return static_cast<std::uint32_t>(pieces_.size()); }

  // The name of the tensor with a byte of a piece.
  const std::string& name_at(const Piece& piece, std::uint64_t offset) const {
    std::uint32_t tensor = piece.tensor;
    std::uint64_t end = plan_.tensors[tensor].extent.length - piece.begin;
    while (end <= offset) end += plan_.tensors[++tensor].extent.length;
    return plan_.tensors[tensor].name;
  }

  const SafetensorsPlan plan_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> room_;
};

// In place of kUnrepresentableHint, which is for C++.
constexpr std::string_view kHint =
    "; pass unrepresentable: 'metadata', which carries the whole tree in the file's metadata, or "
    "'drop', which leaves out what does not fit";

}  // namespace

Result<std::unique_ptr<WrittenFile>> written_safetensors(const Value& state, const Value& metadata,
                                                         Unrepresentable unrepresentable,
                                                         Losses& dropped) {
  auto plan = plan_safetensors(state, metadata, {.unrepresentable = unrepresentable});
  if (!plan) {
    std::string& message = plan.error().message;
    if (const auto at = message.find(kUnrepresentableHint); at != std::string::npos) {
      message.replace(at, kUnrepresentableHint.size(), kHint);
    }
    return propagate(plan);
  }
  dropped = std::move(plan->dropped);
  return std::unique_ptr<WrittenFile>(std::make_unique<WrittenSafetensors>(std::move(*plan)));
}

}  // namespace espalier::abi
