// Errors and versions.
#include <exception>
#include <new>

#include "c/handles.h"

#include "espalier/version.h"

namespace espalier::c {

static_assert(ESPALIER_NOT_FOUND == static_cast<int>(ErrorCode::kNotFound));
static_assert(ESPALIER_WRONG_KIND == static_cast<int>(ErrorCode::kWrongKind));
static_assert(ESPALIER_INVALID_ARGUMENT == static_cast<int>(ErrorCode::kInvalidArgument));
static_assert(ESPALIER_OUT_OF_MEMORY == static_cast<int>(ErrorCode::kOutOfMemory));
static_assert(ESPALIER_IO_ERROR == static_cast<int>(ErrorCode::kIoError));
static_assert(ESPALIER_FILE_MISSING == static_cast<int>(ErrorCode::kFileMissing));
static_assert(ESPALIER_CANCELLED == static_cast<int>(ErrorCode::kCancelled));

espalier_status give(espalier_error** error, Error given) noexcept {
  const auto status = static_cast<espalier_status>(given.code);
  if (error == nullptr) return status;
  try {
    *error = new espalier_error(std::move(given));
  } catch (...) {
    *error = nullptr;
  }
  return status;
}

espalier_status give_exception(espalier_error** error) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return give(error, {ErrorCode::kOutOfMemory, Error::kNoOffset, {}, {}});
  } catch (const std::exception& exception) {
    // The library itself throws nothing else; a size that no vector can have does.
    try {
      return give(error,
                  {ErrorCode::kInvalidArgument,
                   Error::kNoOffset,
                   {},
                   std::string("an argument is beyond what memory can hold: ") + exception.what()});
    } catch (...) {
      return ESPALIER_OUT_OF_MEMORY;
    }
  } catch (...) {
    return ESPALIER_INVALID_ARGUMENT;
  }
}

Result<void> Arguments::check() const {
  if (!are_made_) {
    return fail(ErrorCode::kOutOfMemory,
                "a value is NULL: there was no memory when it was made, or its kind or bytes were "
                "none of a value");
  }
  if (!are_given_) {
    return fail(ErrorCode::kInvalidArgument,
                "an argument is NULL that must not be; espalier.h says which may");
  }
  return {};
}

}  // namespace espalier::c

uint32_t espalier_abi_version() { return ESPALIER_ABI_VERSION; }

const char* espalier_version() { return ESPALIER_VERSION; }

// A call that failed has no error if there was no memory for it. So NULL is that error.
espalier_status espalier_error_status(const espalier_error* error) {
  return error == nullptr ? ESPALIER_OUT_OF_MEMORY
                          : static_cast<espalier_status>(error->error.code);
}

// The names are string literals, which end with a NUL.
const char* espalier_error_code(const espalier_error* error) {
  using espalier::ErrorCode;
  return espalier::to_string(error == nullptr ? ErrorCode::kOutOfMemory : error->error.code).data();
}

const char* espalier_error_text(const espalier_error* error) {
  return error == nullptr ? "out of memory (code out_of_memory)" : error->text.c_str();
}

const char* espalier_error_message(const espalier_error* error) {
  return error == nullptr ? "out of memory" : error->error.message.c_str();
}

const char* espalier_error_path(const espalier_error* error) {
  return error == nullptr ? "" : error->error.path.c_str();
}

uint64_t espalier_error_offset(const espalier_error* error) {
  return error == nullptr ? UINT64_MAX : error->error.offset;
}

void espalier_error_free(espalier_error* error) { delete error; }

espalier_cancel* espalier_new_cancel() { return new (std::nothrow) espalier_cancel; }

// A lock-free atomic, which a signal's handler may write to.
void espalier_cancel_set(espalier_cancel* cancel) {
  static_assert(std::atomic<bool>::is_always_lock_free);
  if (cancel != nullptr) cancel->is_set = true;
}

void espalier_cancel_free(espalier_cancel* cancel) { delete cancel; }
