// Espalier files for abi.h.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "written_file.h"

#include "espalier/format/header.h"
#include "espalier/write/writer.h"

namespace espalier::abi {
namespace {

class WrittenEspalier : public WrittenFile {
 public:
  explicit WrittenEspalier(Writer writer) : writer_(std::move(writer)) {}

  std::uint64_t length() const override { return writer_.file_length(); }
  std::uint32_t pieces() const override { return tensor_pieces() + 2; }

  std::uint64_t piece_bytes(std::uint32_t i) const override {
    return i < tensor_pieces() ? writer_.pieces()[i].length : 0;
  }

  std::vector<Need> needs(std::uint32_t i) const override {
    std::vector<Need> all;
    if (i >= tensor_pieces()) return all;
    for (const Writer::Need& need : writer_.needs(i)) {
      all.push_back({&need.tensor->data, need.is_stored, need.extent});
    }
    return all;
  }

  Result<Made> make(std::uint32_t i) override {
    if (i < tensor_pieces()) {
      auto bytes = writer_.make(i, scratch_);
      if (!bytes) return propagate(bytes);
      return Made{*bytes, writer_.place(i).offset};
    }
    if (i == tensor_pieces()) {
      auto front = writer_.finish();
      if (!front) return propagate(front);
      front_ = *front;
      return Made{front_->index, kHeaderBytes};
    }
    if (front_) return Made{ByteSpan(front_->header), 0};
    return fail(ErrorCode::kIncomplete, "the header is the last piece of a file, after the index");
  }

 private:
  std::uint32_t tensor_pieces() const {
    return static_cast<std::uint32_t>(writer_.pieces().size());
  }

  Writer writer_;
  Writer::Scratch scratch_;
  std::optional<Writer::Front> front_;
};

}  // namespace

Result<std::unique_ptr<WrittenFile>> written_espalier(const Value& state, const Value& metadata,
                                                      int compression_level, Carry carry,
                                                      const References& references) {
  auto writer = Writer::plan(
      state, metadata,
      {.compression_level = compression_level, .carry = carry, .references = &references});
  if (!writer) return propagate(writer);
  return std::unique_ptr<WrittenFile>(std::make_unique<WrittenEspalier>(std::move(*writer)));
}

}  // namespace espalier::abi
