// Limits on the memory and time that a reader spends on an untrusted file.
#ifndef ESPALIER_LIMITS_H_
#define ESPALIER_LIMITS_H_

#include <cstdint>

namespace espalier {

/// Upper bounds that a reader enforces before it allocates or loops. The defaults accept any
/// checkpoint of a million tensors; raise them for a file that you trust, lower them on a server.
struct Limits {
  /// Bytes of index that are copied into memory. Stops a header that claims a huge index from
  /// making the reader allocate it. At most 2^31 - 1, the largest FlatBuffer.
  std::uint64_t index_bytes = 1u << 30;
  /// Nodes in the tree. Stops work that grows with a count in the file.
  std::uint64_t nodes = 1u << 26;
  /// Containers inside containers. Stops stack exhaustion in code that recurses over the tree.
  std::uint32_t depth = 256;
  /// Bytes of all keys on the path to one node. Stops a listing whose every line repeats megabytes.
  std::uint32_t path_bytes = 16384;
  /// Bytes of keys, strings, labels and names, counted once for each use. Stops a small file in
  /// which a million nodes use one long text: copies for all of them would take terabytes.
  std::uint64_t text_bytes = std::uint64_t{1} << 30;
  /// Axes of one tensor; the format itself allows 64.
  std::uint32_t rank = 64;
  /// Bytes of one arbitrary-precision integer. Stops quadratic decimal conversion.
  std::uint32_t bigint_bytes = 1024;
  /// Files beside the opened one that a checkpoint of any format has bytes in; at most 65,534.
  /// Stops a file of 100 bytes that has 65,534 others opened or fetched.
  std::uint32_t files = 1024;
  /// Bytes that one read may allocate here, and all tensors of a file of another format that repeat
  /// its bytes (see docs/threat-model.md). Stops a shape that claims petabytes.
  std::uint64_t decoded_bytes = std::uint64_t{1} << 40;
  /// Bytes that all made files of one checkpoint may take (files that are made when first read, for
  /// example by inflating). Stops an archive of zeros that grows a thousandfold.
  std::uint64_t made_bytes = std::uint64_t{1} << 34;
  /// Bytes of a pickle, as PyTorch files hold one. Enough for two million tensors.
  std::uint64_t pickle_bytes = 256u << 20;
  /// Bytes of the header of another format, such as the JSON of safetensors. The safetensors
  /// specification caps it at 100 MB.
  std::uint64_t foreign_header_bytes = 100'000'000;
  /// Bytes of the directory of a zip archive, such as a PyTorch or .npz file. A million entries
  /// take about 60 MiB.
  std::uint64_t zip_directory_bytes = std::uint64_t{64} << 20;
  /// Bytes of the header of one GGUF file, whose length stands nowhere: vocabulary included, real
  /// ones have up to 16 MiB.
  std::uint64_t gguf_header_bytes = std::uint64_t{128} << 20;
};

}  // namespace espalier

#endif  // ESPALIER_LIMITS_H_
