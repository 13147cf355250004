#include "files/delta/join_parts.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/foreign/common/boxes.h"
#include "espalier/format/access.h"
#include "files/delta/reference_bases.h"
#include "files/delta/rewrite_references.h"

namespace espalier {
namespace {

Error join_error(const char* message) {
  return {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, message};
}

// The bytes of a tensor that is put together as it is written, in any order and by several threads.
class PartReader {
 public:
  // The tensors of `copies` are those of `parts`, whose bases must outlive this.
  PartReader(std::span<const SaveBase> bases, std::span<const JoinedPart> parts,
             std::vector<BoxCopy> copies, std::uint64_t bytes)
      : bases_(bases),
        parts_(parts.begin(), parts.end()),
        copies_(std::move(copies)),
        left_(bytes) {}

  Result<void> read(std::uint64_t offset, MutableByteSpan out) {
    auto views = open();
    if (!views) return propagate(views);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const auto bytes = (**views)[i].bytes();
      copy(copies_[i], bytes, offset, out);
    }
    const std::lock_guard lock(mutex_);
    left_ -= std::min<std::uint64_t>(left_, out.size());
    if (left_ == 0) views_.reset();  // Each byte is asked for once.
    return {};
  }

 private:
  using Views = std::vector<TensorView>;

  Result<std::shared_ptr<const Views>> open() {
    const std::lock_guard lock(mutex_);
    if (views_ != nullptr) return views_;
    Views views;
    for (const JoinedPart& part : parts_) {
      auto view = bases_[part.base].file->view(part.tensor);
      if (!view) return propagate(view);
      views.push_back(std::move(*view));
    }
    views_ = std::make_shared<const Views>(std::move(views));
    return views_;
  }

  // Where run `number` of a copy begins in the tensor.
  static std::uint64_t place_of(const BoxCopy& copy, std::uint64_t number) {
    std::uint64_t place = copy.to;
    for (std::size_t i = copy.axes.size(); i-- > 0;) {
      place += number % copy.axes[i].count * copy.axes[i].step;
      number /= copy.axes[i].count;
    }
    return place;
  }

  // The runs of a packed part ascend in the tensor as they do in the part.
  static void copy(const BoxCopy& copy, ByteSpan from, std::uint64_t offset, MutableByteSpan out) {
    const std::uint64_t end = offset + out.size();
    std::uint64_t first = 0;
    std::uint64_t last = copy.from.length / copy.run;
    while (first < last) {
      const std::uint64_t middle = first + (last - first) / 2;
      if (place_of(copy, middle) + copy.run <= offset) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    for (const std::uint64_t count = copy.from.length / copy.run; first < count; ++first) {
      const std::uint64_t place = place_of(copy, first);
      if (place >= end) return;
      const std::uint64_t begin = std::max(place, offset);
      const std::uint64_t length = std::min(place + copy.run, end) - begin;
      std::memcpy(out.data() + (begin - offset), from.data() + first * copy.run + (begin - place),
                  static_cast<std::size_t>(length));
    }
  }

  std::span<const SaveBase> bases_;
  std::vector<JoinedPart> parts_;
  std::vector<BoxCopy> copies_;
  std::mutex mutex_;
  std::shared_ptr<const Views> views_;
  std::uint64_t left_;
};

class PartJoiner {
 public:
  explicit PartJoiner(std::span<const SaveBase> bases) : bases_(bases) {}

  // Makes `tensor`, a placeholder, one of its parts, and finds what of it lies in them.
  Result<std::shared_ptr<const Tensor>> join(Tensor tensor, std::span<const JoinedPart> parts) {
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes) return tl::unexpected(join_error("the tensor is too large"));
    if (*bytes == 0) {
      tensor.data = TensorData::owned({});
      return std::make_shared<const Tensor>(std::move(tensor));
    }
    std::vector<std::uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    if (shape.size() > 1 && !parts.empty() && std::all_of(parts.begin(), parts.end(), is_run)) {
      std::uint64_t elements = 1;
      for (const std::uint64_t length : shape) elements *= length;  // checked by tensor_bytes()
      shape = {elements};
    }
    for (const JoinedPart& part : parts) {
      if (part.tensor.is_placeholder() || part.tensor.dtype() != tensor.dtype ||
          part.offset.size() != shape.size() || part.tensor.shape().size() != shape.size()) {
        return tl::unexpected(join_error("a part of the tensor has another dtype or other axes"));
      }
    }
    auto copies = plan_copies(tensor.dtype, shape, parts);
    if (!copies) return propagate(copies);
    Found found = find_chunks(*bytes, parts, *copies);
    auto& chunks = found.chunks;
    const auto reader = std::make_shared<PartReader>(bases_, found.parts, std::move(found.copies),
                                                     found.bytes_to_copy);
    tensor.data = TensorData::produced(
        [reader](std::uint64_t offset, MutableByteSpan out) { return reader->read(offset, out); });
    auto made = std::make_shared<const Tensor>(std::move(tensor));
    if (!chunks.empty()) found_.push_back({made.get(), std::move(chunks)});
    return made;
  }

  Result<References> references() { return collect_references(bases_, std::move(found_)); }

 private:
  // How the parts, as many as copies, make up the tensor.
  static Result<std::vector<BoxCopy>> plan_copies(DType dtype, std::span<const std::uint64_t> whole,
                                                  std::span<const JoinedPart> parts) {
    // Two elements of 4 bits are one of a byte, of an axis of half as many.
    const std::uint32_t bits = dtype_bits(dtype);
    if (bits == 0 || (bits < 8 && 8 % bits != 0)) {
      return tl::unexpected(join_error("a tensor of such elements cannot be joined"));
    }
    const std::uint64_t together = bits < 8 ? 8 / bits : 1;
    bool is_whole_bytes = true;
    const auto in_bytes = [&](std::span<const std::uint64_t> numbers) {
      std::vector<std::uint64_t> own(numbers.begin(), numbers.end());
      if (own.empty()) {
        is_whole_bytes = is_whole_bytes && together == 1;
      } else {
        is_whole_bytes = is_whole_bytes && own.back() % together == 0;
        own.back() /= together;
      }
      return own;
    };
    const auto shape = in_bytes(whole);
    std::vector<std::vector<std::uint64_t>> numbers;
    for (const JoinedPart& part : parts) {
      numbers.push_back(in_bytes(part.offset));
      numbers.push_back(in_bytes(part.tensor.shape()));
    }
    if (!is_whole_bytes) {
      return tl::unexpected(join_error("a part of the tensor does not begin or end at a byte"));
    }
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      boxes.push_back({numbers[2 * i], numbers[2 * i + 1]});
    }
    if (boxes.empty() || check_cover(shape, boxes) != Cover::kExact) {
      return tl::unexpected(join_error("the parts do not make up the tensor"));
    }
    std::vector<BoxCopy> copies;
    for (const Box& box : boxes) {
      auto copy = plan_copy(shape, box, bits < 8 ? 1 : bits / 8, {}, {});
      if (!copy) return tl::unexpected(join_error("a part of the tensor is not packed"));
      copies.push_back(std::move(*copy));
    }
    return copies;
  }

  static bool is_run(const JoinedPart& part) {
    return part.offset.size() == 1 && part.tensor.shape().size() == 1;
  }

  struct Found {
    std::vector<std::optional<FoundChunk>> chunks;  // none if all are to be copied
    std::vector<JoinedPart> parts = {};             // those with bytes to copy
    std::vector<BoxCopy> copies = {};
    std::uint64_t bytes_to_copy = 0;
  };

  // The chunks of the parts that are those of the whole, of so many bytes, too.
  static Found find_chunks(std::uint64_t bytes, std::span<const JoinedPart> parts,
                           std::span<const BoxCopy> copies) {
    Found found{.chunks = std::vector<std::optional<FoundChunk>>(
                    static_cast<std::size_t>((bytes + kChunkBytes - 1) / kChunkBytes)),
                .bytes_to_copy = bytes};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::uint64_t length = copies[i].from.length;
      std::uint64_t referred = 0;
      if (copies[i].is_whole() && copies[i].to % kChunkBytes == 0 &&
          is_referable(parts[i].tensor, parts[i].tensor.catalog().files())) {
        // The last chunk of the part may be the begin of one.
        referred = copies[i].to + length == bytes ? length : length - length % kChunkBytes;
        for (std::uint64_t done = 0; done < referred; done += kChunkBytes) {
          found.chunks[static_cast<std::size_t>((copies[i].to + done) / kChunkBytes)] =
              chunk_as_found(parts[i].tensor, static_cast<std::uint32_t>(done / kChunkBytes),
                             parts[i].base);
        }
      }
      found.bytes_to_copy -= referred;
      if (referred == length) continue;
      found.parts.push_back(parts[i]);
      found.copies.push_back(copies[i]);
    }
    if (found.bytes_to_copy == bytes) found.chunks.clear();
    return found;
  }

  std::span<const SaveBase> bases_;
  std::vector<FoundTensor> found_;
};

// What replaces the placeholder at a place: `made`, if that was at another place before.
Result<std::shared_ptr<const Tensor>> join_at(const Value& place,
                                              const std::shared_ptr<const Tensor>& made,
                                              PartJoiner& joiner,
                                              std::span<const JoinedPart> parts) {
  const auto placeholder = place.as_tensor();
  if (placeholder == nullptr || !placeholder->data.is_placeholder()) {
    return tl::unexpected(join_error("the state has no placeholder there"));
  }
  if (made == nullptr) return joiner.join(*placeholder, parts);
  if (placeholder->dtype != made->dtype || placeholder->shape != made->shape ||
      placeholder->axis_names != made->axis_names) {
    return tl::unexpected(join_error("the tensor has another dtype or shape at another place"));
  }
  return made;
}

}  // namespace

Result<void> save_joined(const std::filesystem::path& path, Value state,
                         std::span<const SaveBase> bases, std::span<const JoinedTensor> joined,
                         const SaveOptions& options) {
  PartJoiner joiner(bases);
  for (const JoinedTensor& each : joined) {
    std::shared_ptr<const Tensor> made;
    for (const KeyPath& keys : each.paths) {
      auto place = state.at(keys);
      if (!place) return propagate(place);
      auto joined_there = join_at(**place, made, joiner, each.parts);
      if (!joined_there) {
        if (joined_there.error().path.empty()) joined_there.error().path = keys.to_string();
        return propagate(joined_there);
      }
      made = std::move(*joined_there);
      **place = Value::tensor(made);
    }
  }
  auto references = joiner.references();
  if (!references) return propagate(references);
  return write_with_references(path, state, *references, options);
}

}  // namespace espalier
