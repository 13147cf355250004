#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/dtype.h"
#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/format_info.h"
#include "espalier/tree/convert_elements.h"
#include "files/open/read_ahead.h"
#include "files/open/reading.h"
#include "files/os/about_file.h"
#include "files/os/huge_pages.h"
#include "files/os/out_of_memory.h"
#include "files/os/parallel.h"

namespace espalier {
namespace {

Result<TensorRef> tensor_at(const NodeRef& root, std::string_view path) {
  const auto node = root.at(path);
  if (!node) return propagate(node);
  if (const auto tensor = node->tensor()) return *tensor;
  return fail(ErrorCode::kWrongKind,
              "a tensor is needed, and this is of kind " + std::string(kind_name(node->kind())),
              Error::kNoOffset, std::string(path));
}

// The C++ type of the elements; empty if every program has it under another name, or none.
std::string_view cpp_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kI8:
      return "std::int8_t";
    case DType::kU8:
      return "std::uint8_t";
    case DType::kI16:
      return "std::int16_t";
    case DType::kU16:
      return "std::uint16_t";
    case DType::kI32:
      return "std::int32_t";
    case DType::kU32:
      return "std::uint32_t";
    case DType::kI64:
      return "std::int64_t";
    case DType::kU64:
      return "std::uint64_t";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kC64:
      return "std::complex<float>";
    case DType::kC128:
      return "std::complex<double>";
    default:
      return {};
  }
}

// How to get elements that are not of the type that was asked for.
std::string other_ways(DType dtype, DType wanted) {
  std::string ways;
  if (can_convert(dtype, wanted)) {
    ways = "; load_into() with ReadOptions::convert converts whole tensors to " +
           std::string(dtype_name(wanted));
  }
  const auto type = cpp_type(dtype);
  if (!type.empty()) {
    ways += (ways.empty() ? "; as<" : ", and as<") + std::string(type) +
            ">() of the tensor's view gives them as they are";
  }
  return ways;
}

// Whether the tensor is stored as its raw chunks, one after the other.
bool is_contiguous(const TensorRef& tensor) {
  if (tensor.is_placeholder()) return true;
  if (tensor.storage() != nullptr) return false;
  // Ours may lie in several files, which readers need not know.
  if (tensor.catalog().format() == kEspalierFormat) return true;
  const auto chunks = table_chunks(tensor.catalog().tables(), tensor.number());
  for (std::size_t i = 1; i < chunks.size(); ++i) {
    if (chunks[i].file != chunks[i - 1].file ||
        chunks[i].offset != chunks[i - 1].offset + chunks[i - 1].stored) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<ReadPlan> plan_read(const TensorRef& tensor, std::span<const Slice> slices) {
  auto plan = ReadPlan::make(tensor, slices);
  if (!plan && plan.error().path.empty()) plan.error().path = tensor_path(tensor);
  return plan;
}

Result<void> check_no_conversion(const ReadOptions& options) {
  if (!options.convert) return {};
  return fail(ErrorCode::kInvalidArgument,
              "ReadOptions::convert is for load_into(): this call gives elements as they are "
              "stored");
}

Result<std::shared_ptr<std::byte>> memory_for(const TensorRef& tensor, std::uint64_t bytes,
                                              const TensorMemory& memory) {
  const auto no_memory = [&] {
    return fail(ErrorCode::kOutOfMemory,
                memory ? "OpenFileOptions::memory gave none for the " + counted(bytes, "byte") +
                             " of a tensor; read slices of it"
                       : "cannot allocate " + counted(bytes, "byte") +
                             " for a tensor; read slices of it, or map the file",
                Error::kNoOffset, tensor_path(tensor));
  };
  // Nobody has to give a pointer to nothing.
  if (!memory || bytes == 0) {
    auto block = large_memory(bytes);
    if (!block) return no_memory();
    return std::shared_ptr<std::byte>(block, block.get());
  }
  const auto size = narrow_size(bytes);
  if (!size) return no_memory();
  std::shared_ptr<void> block;
  try {
    block = memory(*size, kTensorAlignment);
  } catch (const std::bad_alloc&) {
  }
  if (!block) return no_memory();
  if (reinterpret_cast<std::uintptr_t>(block.get()) % kTensorAlignment != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "OpenFileOptions::memory gave memory that is not aligned to " +
                    std::to_string(kTensorAlignment) + " bytes; give it as it is asked for",
                Error::kNoOffset, tensor_path(tensor));
  }
  return std::shared_ptr<std::byte>(block, static_cast<std::byte*>(block.get()));
}

Result<void> check_bools(DType dtype, ByteSpan bytes) {
  if (dtype != DType::kBool) return {};
  const auto invalid =
      std::find_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte > std::byte{1}; });
  if (invalid == bytes.end()) return {};
  return fail(ErrorCode::kTensorInvalid,
              "bool number " + std::to_string(invalid - bytes.begin()) +
                  " is neither 0 nor 1; read the tensor's bytes and decide what they mean");
}

Result<void> TensorView::check_elements(DType wanted, std::size_t alignment) const {
  if (dtype != wanted) {
    return fail(ErrorCode::kWrongKind, "the elements are " + std::string(dtype_name(dtype)) +
                                           ", not " + std::string(dtype_name(wanted)) +
                                           other_ways(dtype, wanted));
  }
  if (auto ok = check_address(alignment); !ok) return ok;
  return check_bools(dtype, bytes_);
}

Result<void> TensorView::check_bits(std::size_t wanted, std::size_t alignment) const {
  if (dtype_bits(dtype) == wanted) return check_address(alignment);
  return fail(ErrorCode::kWrongKind, "an element of " + std::string(dtype_name(dtype)) + " has " +
                                         counted(dtype_bits(dtype), "bit") + ", not " +
                                         std::to_string(wanted));
}

Result<void> TensorView::check_address(std::size_t alignment) const {
  if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignment == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the file has the elements at an address that is no multiple of " +
                  std::to_string(alignment) + "; copy them with read_into()");
}

bool CheckpointFile::is_in_place(const TensorRef& tensor) const {
  const auto extent = tensor.raw_extent();
  return extent && source_->mapping(extent->file);
}

Result<void> CheckpointFile::check_in_place(std::span<const TensorRef> tensors, Read& read) const {
  struct Place {
    std::uint32_t tensor;  // in `tensors`
    std::uint32_t chunk;   // of that tensor
  };
  std::vector<Place> places;
  ReadAhead ahead(*source_);
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    for (std::uint32_t i = 0; i < tensors[t].chunk_count(); ++i) {
      places.push_back({t, i});
      ahead.add(stored_extent(tensors[t], i));
    }
  }
  ahead.start();
  return parallel_for(places.size(), options_.threads,
                      [&](unsigned, std::size_t i) -> Result<void> {
                        const TensorRef& tensor = tensors[places[i].tensor];
                        const auto length = stored_extent(tensor, places[i].chunk).length;
                        return read.chunk(length, [&]() -> Result<void> {
                          ahead.use(length);
                          ChunkBuffer unused;  // The chunks are raw, and mapped.
                          auto bytes = read_chunk(tensor, places[i].chunk, unused);
                          if (!bytes) return propagate(bytes);
                          return {};
                        });
                      });
}

Result<TensorView> CheckpointFile::view(const TensorRef& tensor, const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<TensorView> {
    if (auto ok = check_no_conversion(options); !ok) return propagate(ok);
    if (!is_contiguous(tensor)) {
      return fail(ErrorCode::kNotContiguous,
                  "the tensor is stored with strides, in another byte order or in parts, so view() "
                  "cannot return it; read it with slice()",
                  Error::kNoOffset, tensor_path(tensor));
    }
    const auto extent = tensor.raw_extent();
    if (!extent || !source_->mapping(extent->file)) return slice(tensor, {}, options);
    if (options.check == Check::kHashes && checkpoint_.catalog().has_hashes()) {
      Read read(options);
      read.expect(tensor.stored_bytes());
      if (auto ok = check_in_place(std::span(&tensor, 1), read); !ok) return propagate(ok);
    }
    auto bytes = source_->read(*extent, {});
    if (bytes) {
      if (auto ok = check_answer(*extent, *bytes); !ok) bytes = propagate(ok);
    }
    if (!bytes) {
      espalier::name_file(bytes.error(), checkpoint_.catalog().files()[extent->file].name);
      return propagate(bytes);
    }
    const auto shape = tensor.shape();
    return TensorView(tensor.dtype(), {shape.begin(), shape.end()}, *bytes, source_);
  });
}

Result<TensorView> CheckpointFile::tensor(std::string_view path, const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<TensorView> {
    const auto found = tensor_at(state(), path);
    if (!found) return propagate(found);
    return view(*found, options);
  });
}

Result<TensorView> CheckpointFile::slice(const TensorRef& tensor, std::span<const Slice> slices,
                                         const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<TensorView> {
    if (auto ok = check_no_conversion(options); !ok) return propagate(ok);
    auto plan = plan_read(tensor, slices);
    if (!plan) return propagate(plan);
    if (plan->bytes() > options_.limits.decoded_bytes) {
      return fail(ErrorCode::kLimitExceeded,
                  "reading this takes " + counted(plan->bytes(), "byte") +
                      " and Limits::decoded_bytes allows " +
                      std::to_string(options_.limits.decoded_bytes),
                  Error::kNoOffset, tensor_path(tensor));
    }
    auto memory = memory_for(tensor, plan->bytes(), options_.memory);
    if (!memory) return propagate(memory);
    const MutableByteSpan out(memory->get(), static_cast<std::size_t>(plan->bytes()));
    std::vector<std::uint64_t> shape = plan->shape();
    const Reading reading{std::move(*plan), out};
    Read read(options);
    read.expect(std::span(&reading, 1));
    if (auto ok = read_all(std::span(&reading, 1), read); !ok) return propagate(ok);
    return TensorView{tensor.dtype(), std::move(shape), out, std::move(*memory)};
  });
}

Result<TensorView> CheckpointFile::slice(std::string_view path, std::span<const Slice> slices,
                                         const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<TensorView> {
    const auto found = tensor_at(state(), path);
    if (!found) return propagate(found);
    return slice(*found, slices, options);
  });
}

Result<TensorView> CheckpointFile::slice(std::string_view path, std::initializer_list<Slice> slices,
                                         const ReadOptions& options) const {
  return slice(path, std::span(slices.begin(), slices.size()), options);
}

Result<void> CheckpointFile::read_into(const TensorRef& tensor, std::span<const Slice> slices,
                                       MutableByteSpan out, const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<void> {
    const ReadRequest request{tensor, out, {slices.begin(), slices.end()}};
    return read_into(std::span(&request, 1), options);
  });
}

Result<void> CheckpointFile::read_into(std::span<const ReadRequest> requests,
                                       const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<void> {
    if (auto ok = check_no_conversion(options); !ok) return propagate(ok);
    std::vector<Reading> readings;
    readings.reserve(requests.size());
    for (const ReadRequest& request : requests) {
      auto plan = plan_read(request.tensor, request.slices);
      if (!plan) return propagate(plan);
      if (request.out.size() != plan->bytes()) {
        return fail(ErrorCode::kInvalidArgument,
                    "the result has " + counted(plan->bytes(), "byte") + " and the buffer " +
                        std::to_string(request.out.size()),
                    Error::kNoOffset, tensor_path(request.tensor));
      }
      readings.push_back({std::move(*plan), request.out});
    }
    Read read(options);
    read.expect(readings);
    return read_all(readings, read);
  });
}

Result<void> CheckpointFile::load_into(std::initializer_list<TensorTarget> targets,
                                       const ReadOptions& options) const {
  return load_into(std::span(targets.begin(), targets.size()), options);
}

Result<void> CheckpointFile::load_into(std::span<const TensorTarget> targets,
                                       const ReadOptions& options) const {
  return about_file(shared_->path, [&]() -> Result<void> {
    std::vector<Reading> readings;
    readings.reserve(targets.size());
    std::vector<Conversion> conversions;
    for (const TensorTarget& target : targets) {
      const auto tensor = tensor_at(state(), target.path);
      if (!tensor) return propagate(tensor);
      const auto refuse = [&](std::string_view what) {
        return fail(ErrorCode::kInvalidArgument, what, Error::kNoOffset, target.path);
      };
      const bool converts = options.convert && tensor->dtype() != target.dtype &&
                            can_convert(tensor->dtype(), target.dtype);
      if (tensor->dtype() != target.dtype && !converts) {
        return refuse("the tensor is " + std::string(dtype_name(tensor->dtype())) +
                      " and the memory for it " + std::string(dtype_name(target.dtype)) +
                      "; give memory of a type with that dtype (DTypeOf tells those of your own), "
                      "let ReadOptions::convert convert numbers, or take the bytes with "
                      "read_into()");
      }
      const std::uint64_t width = dtype_bits(target.dtype) / 8;
      const bool fits = converts ? tensor->elements() == target.out.size() / width
                                 : tensor->bytes() == target.out.size();
      if (!fits) {
        return refuse("the tensor has " + counted(tensor->elements(), "element") +
                      " and the memory is for " + std::to_string(target.out.size() / width) +
                      "; give memory for all of them, or read a slice");
      }
      // Also of a tensor that is converted, so that one that cannot be read is refused here.
      auto plan = plan_read(*tensor, {});
      if (!plan) return propagate(plan);
      if (converts) {
        conversions.push_back({*tensor, target.dtype, target.out});
      } else {
        readings.push_back({std::move(*plan), target.out});
      }
    }
    Read passes(options);
    passes.expect(readings);
    passes.expect(conversions);
    auto read = read_all(readings, passes);
    if (read) read = convert_all(conversions, passes);
    for (const TensorTarget& target : targets) {
      if (target.dtype != DType::kBool) continue;
      auto ok = check_bools(target.dtype, target.out);
      // Even after an error the caller's memory must hold bools.
      if (!read || !ok) std::fill(target.out.begin(), target.out.end(), std::byte{0});
      if (read && !ok) {
        ok.error().path = target.path;
        read = std::move(ok);
      }
    }
    return read;
  });
}

// All chunks of all plans in one parallel loop: a loop for each would start and stop threads every
// time.
Result<void> CheckpointFile::read_all(std::span<const Reading> readings, Read& read) const {
  struct Place {
    std::size_t reading;
    std::size_t begin;  // a range of its chunks
    std::size_t end;
  };
  std::vector<Place> places;
  ReadAhead ahead(*source_);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    const auto& chunks = readings[i].plan.chunks();
    for (const PlannedChunk& chunk : chunks) ahead.add(chunk.stored, chunk.bases);
    // Chunks that share bytes of the result come one after the other.
    const std::size_t step = readings[i].plan.is_concurrent() ? 1 : chunks.size();
    for (std::size_t chunk = 0; chunk < chunks.size(); chunk += step) {
      places.push_back({i, chunk, chunk + step});
    }
  }
  ahead.start();
  std::vector<ChunkBuffer> buffers(thread_count(options_.threads));
  return parallel_for(
      places.size(), options_.threads, [&](unsigned worker, std::size_t i) -> Result<void> {
        const Reading& reading = readings[places[i].reading];
        for (std::size_t chunk = places[i].begin; chunk < places[i].end; ++chunk) {
          const auto length = reading.plan.chunks()[chunk].stored_bytes();
          auto ok = read.chunk(length, [&] {
            ahead.use(length);
            return read_planned_chunk(reading.plan, chunk, reading.out, buffers[worker]);
          });
          if (!ok) return ok;
        }
        return {};
      });
}

}  // namespace espalier
