// What the handles of the C interface hold, and the border that no exception crosses.
#ifndef ESPALIER_C_HANDLES_H_
#define ESPALIER_C_HANDLES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier.h"

#include "espalier/checkpoint_dir.h"
#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/read/verify.h"
#include "espalier/save_async.h"
#include "espalier/value.h"

struct espalier_error {
  explicit espalier_error(espalier::Error given)
      : error(std::move(given)), text(error.describe()) {}

  espalier::Error error;
  std::string text;
};

struct espalier_file {
  espalier::CheckpointFile file;
};

struct espalier_list {
  std::vector<espalier::FoundNode> nodes;
};

struct espalier_view {
  espalier::Elements<std::byte> bytes;
};

struct espalier_report {
  espalier::VerifyReport report;
  std::vector<espalier_error> errors;
};

struct espalier_value {
  espalier::Value value;
};

struct espalier_cancel {
  std::atomic<bool> is_set = false;
};

struct espalier_saving {
  espalier::AsyncSave save;
};

struct espalier_dir {
  espalier::CheckpointDir dir;
};

namespace espalier::c {

/// Hands an error to the caller and returns its number. Without memory for it, only the number.
espalier_status give(espalier_error** error, Error given) noexcept;
/// The same for the exception that is being handled.
espalier_status give_exception(espalier_error** error) noexcept;

/// Memory of the caller: `size` bytes or elements, which may be NULL if there are none.
struct Memory {
  const void* data;
  std::size_t size;
};

/// The arguments of a call that must be there. What a function of this library returned is NULL if
/// there was no memory for it, and then the call fails in the same way.
class Arguments {
 public:
  /// A pointer of the caller's own, such as one to the result.
  Arguments& need(const void* pointer) {
    are_given_ = are_given_ && pointer != nullptr;
    return *this;
  }
  Arguments& need(const Memory& memory) { return memory.size == 0 ? *this : need(memory.data); }
  /// A tree that the caller built.
  Arguments& need_value(const espalier_value* value) {
    are_made_ = are_made_ && value != nullptr;
    return *this;
  }

  /// Where the call puts a handle. It is NULL after a failure, whatever failed.
  template <class Handle>
  Arguments& result(Handle** out) {
    if (out != nullptr) *out = nullptr;
    return need(out);
  }

  [[nodiscard]] Result<void> check() const;

 private:
  bool are_given_ = true;
  bool are_made_ = true;
};

/// Runs `body`, which returns a Result<void>, if the arguments are there, and turns its error or
/// exception into a status.
template <class Body>
espalier_status guarded(espalier_error** error, const Arguments& arguments,
                        const Body& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    Result<void> result = arguments.check();
    if (result) result = body();
    return result ? ESPALIER_OK : give(error, std::move(result.error()));
  } catch (...) {
    return give_exception(error);
  }
}

/// Makes a value; NULL without memory.
template <class Make>
espalier_value* new_value(const Make& make) noexcept {
  try {
    return new espalier_value{make()};
  } catch (...) {
    return nullptr;
  }
}

/// A struct of the caller, with zeros for the members that its older header lacks. Refuses members
/// that this library does not know, unless they are zero.
template <class Sized>
Result<Sized> take(const Sized* given) {
  Sized taken = {};
  if (given == nullptr) return taken;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (given->size < sizeof given->size ||
      std::any_of(bytes + std::min(given->size, sizeof taken), bytes + given->size,
                  [](unsigned char byte) { return byte != 0; })) {
    return fail(ErrorCode::kInvalidArgument,
                "the size of a struct is wrong, or the program needs a newer library; initialise "
                "structs with ESPALIER_INIT");
  }
  std::memcpy(&taken, given, std::min(given->size, sizeof taken));
  return taken;
}

/// Fills a struct of the caller as far as its header knows it.
template <class Sized>
Result<void> fill(Sized* out, Sized filled) {
  const std::size_t size = out->size;
  if (size < sizeof out->size) {
    return fail(ErrorCode::kInvalidArgument,
                "the size of a struct is not set; initialise structs with ESPALIER_INIT");
  }
  filled.size = size;
  if (size > sizeof filled) std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &filled, std::min(size, sizeof filled));
  return {};
}

inline espalier_text text_of(std::string_view text) { return {text.data(), text.size()}; }
inline espalier_text text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// kInvalidArgument if the file has no such node.
[[nodiscard]] Result<NodeRef> node_of(const espalier_file* file, espalier_node node);
/// kWrongKind if the node is neither a tensor nor a placeholder.
[[nodiscard]] Result<TensorRef> tensor_of(const espalier_file* file, espalier_node node);

/// The flag of a handle; null for NULL.
inline const std::atomic<bool>* flag_of(const espalier_cancel* cancel) {
  return cancel == nullptr ? nullptr : &cancel->is_set;
}

/// The options of a call; the defaults for NULL.
[[nodiscard]] Result<OpenFileOptions> options_of(const espalier_open_options* given);
[[nodiscard]] Result<ReadOptions> options_of(const espalier_read_options* given);
[[nodiscard]] Result<SaveOptions> options_of(const espalier_save_options* given);

/// Handles, of a report and of a save in the background.
espalier_report* report_of(VerifyReport report);
espalier_saving* saving_of(AsyncSave save);
Snapshot snapshot_of(int borrows);

/// A progress function, or an empty one for NULL.
Progress progress_of(espalier_progress progress, void* context);

/// So many threads, or those of the program's function.
Threads threads_of(std::uint32_t count, espalier_run run, void* context);

}  // namespace espalier::c

#endif  // ESPALIER_C_HANDLES_H_
