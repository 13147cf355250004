// Errors as values: every failure in the library is an `Error` inside a `Result<T>`.
//
// Nothing in the core throws, asserts or aborts on untrusted bytes. An `Error` carries a pinned
// code for programs, the file offset and key path if known, and a sentence for people that says
// what is wrong and what to do about it. docs/errors.md lists every code.
#ifndef ESPALIER_ERROR_H_
#define ESPALIER_ERROR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

// One line in place of many.
#ifdef ESPALIER_FOUND_FOR_C_ALONE
#error "find_package(espalier COMPONENTS C) is for programs in C alone: name CXX, too"
#elif !__has_include(<tl/expected.hpp>)
#error "Espalier's headers for C++ need those of tl-expected (Debian: libexpected-dev)"
#endif
#include <tl/expected.hpp>

namespace espalier {

/// Why an operation failed. The numbers are pinned: they never change meaning and are never reused,
/// so they may be stored, compared across versions and passed through the C ABI.
enum class ErrorCode : std::uint16_t {
  // 1..39: the input is unreadable, damaged or hostile. Command line exit code 3, but 5 for memory.
  kNotACheckpoint = 1,       // The first bytes match no accepted format.
  kTruncated = 2,            // The file is shorter than its header or its contents say.
  kTrailingBytes = 3,        // The file is longer than its header says.
  kUnsupportedVersion = 4,   // A format version that this library does not know.
  kUnsupportedFeature = 5,   // A required-feature bit that this library does not know.
  kHeaderCorrupt = 6,        // The header's own hash does not match.
  kHeaderInvalid = 7,        // The header is intact but contradicts itself.
  kIndexCorrupt = 8,         // The index does not match its hash.
  kIndexInvalid = 9,         // The index is not a well-formed FlatBuffer of the schema.
  kTreeInvalid = 10,         // The nodes do not form one canonical tree.
  kTensorInvalid = 11,       // A tensor record is inconsistent: dtype, shape or size.
  kChunkInvalid = 12,        // A chunk record is inconsistent: offset, length or codec.
  kTextInvalid = 13,         // A string is not UTF-8, or the string pool is not canonical.
  kKeyInvalid = 14,          // Keys are duplicate, unordered or of the wrong type.
  kLimitExceeded = 15,       // The input needs more than `Limits` allows.
  kOutOfMemory = 16,         // Memory for the input could not be allocated.
  kChunkCorrupt = 17,        // Tensor bytes do not match the chunk's hash.
  kPaddingCorrupt = 18,      // Bytes between blobs that must be zero are not.
  kDigestMismatch = 19,      // The tree digest in the header is not that of the tree.
  kNotARegularFile = 20,     // A directory, a FIFO or a device stands where a file should be.
  kSafetensorsInvalid = 21,  // The file breaks the safetensors specification.
  kUnsupportedCodec = 22,    // A known codec that this build cannot decode.
  kForeignInvalid = 23,      // The file breaks the rules of its own, other format.
  kBaseMismatch = 24,        // A further file is not the one that the checkpoint was made with.
  kMapData = 25,             // Tensors that a key map takes for equal, or for zero, are not.
  kElementsMissing = 26,  // A tensor whose elements the file does not have in a form that is read.

  // 40..59: the request is wrong. Command line exit code 2.
  kInvalidKeyPath = 40,    // Text that is not a key path.
  kInvalidPattern = 41,    // Text that is not a pattern.
  kNotFound = 42,          // No node at that key path.
  kWrongKind = 43,         // The node is of another kind than the operation needs.
  kInvalidSlice = 44,      // A slice does not fit the tensor.
  kInvalidArgument = 45,   // Any other invalid argument.
  kInvalidTree = 46,       // A tree that cannot be written: duplicate keys, wrong sizes, ...
  kIncomplete = 47,        // `finish()` before every needed byte was fed.
  kNameCollision = 48,     // Two nodes would get the same name in the target format.
  kUnrepresentable = 49,   // The target format cannot hold this value.
  kFileExists = 50,        // A file of that name exists, and may not be replaced.
  kNotContiguous = 51,     // The tensor's layout in the file is not its layout in memory.
  kMapInvalid = 52,        // Text that is not a key map.
  kMapUnmatched = 53,      // A tensor that no rule of a key map takes.
  kMapAmbiguous = 54,      // A tensor that two rules take, or a name that reads back differently.
  kMapIncomplete = 55,     // A rule that finds some of its tensors but not all.
  kMapShape = 56,          // A tensor whose shape or dtype does not fit its rule.
  kMapUndetermined = 57,   // A size that a key map needs and nothing tells.
  kMapTemplate = 58,       // What a key map makes is not what the template has.
  kMapNotInvertible = 59,  // A key map that cannot be used in this direction.

  // 60..79: the operating system or the user refused. Command line exit code 4.
  kIoError = 60,            // Reading or writing failed.
  kFileNotFound = 61,       // No such file.
  kFileChanged = 62,        // The file changed while it was being read.
  kDurabilityUnknown = 63,  // The file was replaced, but syncing its folder failed.
  kFileMissing = 64,        // A further file that the checkpoint needs is not there.
  kCancelled = 65,          // The caller gave up the operation.
  kFolderInUse = 66,        // Another process saves to the folder.
};

/// The code's name in snake_case, e.g. "chunk_corrupt". Never empty; "unknown" for other numbers.
std::string_view to_string(ErrorCode code);

/// Whether an error concerns all files of a checkpoint although it was met in one: the caller can
/// raise the limit, or has given up.
constexpr bool ends_all(ErrorCode code) {
  return code == ErrorCode::kLimitExceeded || code == ErrorCode::kOutOfMemory ||
         code == ErrorCode::kCancelled;
}

/// One failure. A plain value: copy, move and compare freely.
struct Error {
  /// The value of `offset` if no file position applies.
  static constexpr std::uint64_t kNoOffset = ~std::uint64_t{0};

  Error() = default;
  /// Escapes `text`: see `message`.
  Error(ErrorCode failure, std::uint64_t at, std::string node, std::string_view text,
        std::string name = {});

  ErrorCode code = ErrorCode::kInvalidArgument;
  /// Byte offset of the error in the file, or `kNoOffset`.
  std::uint64_t offset = kNoOffset;
  /// Printed key path of the node; empty if none applies. As it is in the file: print it escaped.
  std::string path;
  /// One sentence: what is wrong, and what to do about it. It may quote names from files, which
  /// could turn a terminal's display against its user. So it is printable whenever the constructor
  /// made it: control characters, line breaks, and characters without width or that change the text
  /// direction are escaped (`\x1b`, `\u{202e}`).
  std::string message;
  /// The file with the error: the path that was opened or saved to, or the name of one of several
  /// files of a checkpoint. Empty for what has no path, such as a file in memory. As it is named:
  /// print it escaped.
  std::string file;

  /// "message (code chunk_corrupt, in file model-2.safetensors, at byte 4096, in model/weight)".
  /// One line, and printable: all of it is escaped, as names come from files.
  std::string describe() const;

  friend bool operator==(const Error&, const Error&) = default;
};

namespace detail {

/// Prints the error and ends the program: a result was used that has none.
[[noreturn]] void end_on(const Error& error);
/// The same: a handle into a file was used after the file.
[[noreturn]] void end_of_dead_handle();

template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<tl::expected<T, Error>> = true;
template <class T>
inline constexpr bool is_result<tl::unexpected<T>> = true;
template <class R>
concept AnyResult = is_result<std::remove_cvref_t<R>> || requires {
  typename std::remove_cvref_t<R>::ResultOf;
};

// Debug builds, and those that ask for checks: with ESPALIER_HARDENED, or with the standard
// library's own.
#if !defined(NDEBUG) || defined(ESPALIER_HARDENED) || defined(_GLIBCXX_ASSERTIONS) || \
    (defined(_LIBCPP_HARDENING_MODE) && _LIBCPP_HARDENING_MODE != _LIBCPP_HARDENING_MODE_NONE)
inline constexpr bool kIsHardened = true;
#else
inline constexpr bool kIsHardened = false;
#endif

}  // namespace detail

#ifdef __cpp_exceptions
/// What Result::value() throws. Its what() is the error's describe().
class FailedResult : public tl::bad_expected_access<Error> {
 public:
  explicit FailedResult(const Error& failure)
      : tl::bad_expected_access<Error>(failure), text_(failure.describe()) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};
#endif

namespace detail {

[[noreturn]] inline void raise(const Error& error) {
#ifdef __cpp_exceptions
  throw FailedResult(error);
#else
  end_on(error);
#endif
}

}  // namespace detail

/// A type whose objects hand out what ends with them, such as a file its nodes. A temporary one is
/// not asked for these: keep it in a variable.
template <class T>
concept Lender = requires {
  typename T::LendsWhatEndsWithIt;
};

/// Either a `T` or an `Error`. Test it like a pointer; `*r` and `r.error()` are the two sides.
///
///   auto file = CheckpointFile::open(path);
///   if (!file) return report(file.error());
///
/// or, with exceptions:
///
///   CheckpointFile file = CheckpointFile::open(path).value();  // throws FailedResult
///
/// `*r` and `r->` of a result that failed are undefined; debug and hardened builds (NDEBUG is not
/// defined; ESPALIER_HARDENED or _GLIBCXX_ASSERTIONS is) print the error and abort. value() throws
/// FailedResult, or does the same where exceptions are off.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  using Base = tl::expected<T, Error>;

 public:
  using ResultOf = T;

  Result() requires std::is_default_constructible_v<T>
  = default;
  /// Of a `T`, or of what converts to one. Not of another result, which a bool would be made of.
  // NOLINTBEGIN(bugprone-forwarding-reference-overload): AnyResult is every kind of result.
  template <class U = T>
  requires(!detail::AnyResult<U> &&
           std::is_constructible_v<T, U>) explicit(!std::is_convertible_v<U, T>) Result(U&& value)
      : Base(tl::in_place, std::forward<U>(value)) {}
  // NOLINTEND(bugprone-forwarding-reference-overload)
  // Two references and not a value: errors are large, and failures many.
  Result(tl::unexpected<Error>&& failure) : Base(std::move(failure)) {}
  Result(const tl::unexpected<Error>& failure) : Base(failure) {}
  /// From the result of map() and the like, and of a type that converts to `T`.
  template <class U>
  requires std::is_constructible_v<T, U>
  explicit(!std::is_convertible_v<U, T>) Result(tl::expected<U, Error>&& other)
      : Base(std::move(other)) {}
  template <class U>
  requires std::is_constructible_v<T, const U&>
  explicit(!std::is_convertible_v<const U&, T> || !std::is_convertible_v<U, T>)
      Result(const tl::expected<U, Error>& other)
      : Base(other) {}

  T& operator*() & { return check(), Base::operator*(); }
  const T& operator*() const& { return check(), Base::operator*(); }
  /// The value itself, so that `for (float x : *file.elements<float>("w"))` keeps what it reads.
  T operator*() && { return check(), std::move(Base::operator*()); }

  T* operator->() & { return check(), Base::operator->(); }
  const T* operator->() const& { return check(), Base::operator->(); }
  /// Of a Lender, `CheckpointFile::open(path)->state()` would dangle at once.
  T* operator->() && requires Lender<T>
  = delete;
  T* operator->() && requires(!Lender<T>) { return check(), Base::operator->(); }

  T& value() & { return demand(), Base::operator*(); }
  const T& value() const& { return demand(), Base::operator*(); }
  T value() && { return demand(), std::move(Base::operator*()); }

  template <class U>
  requires(!detail::AnyResult<U>) friend bool operator==(const Result& a, const U& b) {
    return a.has_value() && *a == b;
  }
  friend bool operator==(const Result& a, const Result& b) {
    return static_cast<const Base&>(a) == static_cast<const Base&>(b);
  }

 private:
  void check() const {
    if constexpr (detail::kIsHardened) {
      if (!this->has_value()) detail::end_on(this->error());
    }
  }
  void demand() const {
    if (!this->has_value()) detail::raise(this->error());
  }
};

/// What may fail and returns nothing.
template <>
class [[nodiscard]] Result<void> : public tl::expected<void, Error> {
  using Base = tl::expected<void, Error>;

 public:
  using ResultOf = void;

  Result() = default;
  // Two references and not a value: errors are large, and failures many.
  Result(tl::unexpected<Error>&& failure) : Base(std::move(failure)) {}
  Result(const tl::unexpected<Error>& failure) : Base(failure) {}
  Result(Base&& other) : Base(std::move(other)) {}
  Result(const Base& other) : Base(other) {}

  void operator*() const {}
  void value() const {
    if (!has_value()) detail::raise(error());
  }
};

/// Makes the failing side of a `Result`.
inline tl::unexpected<Error> fail(ErrorCode code, std::string_view message,
                                  std::uint64_t offset = Error::kNoOffset, std::string path = {}) {
  return tl::unexpected<Error>(Error(code, offset, std::move(path), message));
}

/// Passes the error of a failed `Result` on to a caller with another value type.
template <class T>
tl::unexpected<Error> propagate(Result<T>& failed) {
  return tl::unexpected<Error>(std::move(failed).error());
}

/// The same for a result that is const: copies the error.
template <class T>
tl::unexpected<Error> propagate(const Result<T>& failed) {
  return tl::unexpected<Error>(failed.error());
}

}  // namespace espalier

#endif  // ESPALIER_ERROR_H_
