// The part of abi.h in every module: memory and errors.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "failure.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(Failure) == 40 && offsetof(Failure, file) == 32);

Error last_error;
Failure last_failure;

}  // namespace

Failure failure_of(const Error& error) {
  return {static_cast<std::uint32_t>(error.code),
          0,
          error.offset,
          text_of(error.path),
          text_of(error.message),
          text_of(error.file)};
}

Status set_failure(Error error) {
  last_error = std::move(error);
  last_failure = failure_of(last_error);
  return last_failure.code;
}

const Failure* espalier_last_error() { return &last_failure; }

void* espalier_allocate(std::uint32_t bytes) { return std::malloc(bytes); }
void espalier_free(void* memory) { std::free(memory); }

}  // namespace espalier::abi

// The library's operator new would link the code for exceptions, although lack of memory ends in a
// trap.
void* operator new(std::size_t size) {
  if (void* memory = std::malloc(size)) return memory;
  __builtin_trap();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
