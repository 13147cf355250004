// The C interface of the WebAssembly modules: what JavaScript calls.
//
// It marshals and nothing else: every function below hands its arguments to the C++ core and lays
// the answer out in memory. `wasm/src/core` is the other side of it, and the only one; the two are
// built together and shipped together, so nothing here is stable between versions.
//
// Each module has a part of it, besides memory and errors:
//   core.wasm     opens files, holds the tree, and plans reads and verifications
//   decoder.wasm  turns stored bytes into checked ones and counts them; it knows no file and no
//   tree writer.wasm   writes
//
// Conventions
//   - Memory is that of the module. A pointer is a u32 offset. Records are little-endian C structs;
//     the offset of each field is said beside it.
//   - Text is UTF-8 with a length, never zero-terminated.
//   - `Status` is 0, or the number of an ErrorCode (src/espalier/base/error.h). After another
//     status, or a null pointer from a function that makes something, espalier_last_error() says
//     more.
//   - Handles (Opening*, Checkpoint*, ...) belong to the caller, who frees each with the function
//     named for it. What a handle was made from must outlive it only where that is said.
//   - Pointers that a function gives out point into the handle, and are valid until the next call
//     that takes the same handle, unless more is said. Any call may grow the memory, which detaches
//     every JavaScript view of it.
//   - Bytes of files may be anything. Handles, node, tensor, chunk and region numbers may not: they
//     come from this module, and are checked all the same, as a number from a page's address bar
//     ends up here.
//   - A lack of memory that the core cannot report traps. The module's instance is of no use then.
//   - One thread.
#ifndef ESPALIER_WASM_ABI_H_
#define ESPALIER_WASM_ABI_H_

#include <cstdint>

#include "espalier/base/bytes.h"

#ifdef __EMSCRIPTEN__
#define ESPALIER_ABI extern "C" __attribute__((used, visibility("default")))
#else
#define ESPALIER_ABI extern "C"
#endif

namespace espalier {
struct Difference;
}

namespace espalier::abi {

using Status = std::uint32_t;
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};  // no node, no tensor

struct Text {
  const char* data;      // 0
  std::uint32_t length;  // 4
};

struct Failure {
  std::uint32_t code;    // 0
  std::uint32_t zero;    // 4
  std::uint64_t offset;  // 8: in the file; all ones if no position is to blame
  Text path;             // 16: key path, may be empty
  Text message;          // 24
  Text file;             // 32: name of the file that is to blame; empty for the one that was opened
};

/// A further file that a checkpoint has bytes in.
struct WantedFile {
  std::uint32_t number;      // 0: what extents call it
  std::uint32_t is_sibling;  // 4: 0 if the name could lead out of the folder of the opened file
  Text name;                 // 8: from the file: a label, and no path
};

/// A range of a file: 0 is the one that was opened.
struct Extent {
  std::uint32_t file;    // 0
  std::uint32_t zero;    // 4
  std::uint64_t offset;  // 8
  std::uint64_t length;  // 16
};

struct Info {
  std::uint32_t format;         // 0: 0 espalier, 1 safetensors
  std::uint32_t has_hashes;     // 4: 0 or 1
  std::uint32_t nodes;          // 8
  std::uint32_t tensors;        // 12
  std::uint64_t file_length;    // 16
  std::uint64_t data_begin;     // 24: the first byte after header and index
  std::uint32_t state_root;     // 32
  std::uint32_t metadata_root;  // 36
  std::uint8_t digest[16];      // 40: the tree digest as in the file; zeros without hashes
};

/// Key kinds: 0 none (roots; children of lists, tuples, sets), 1 text, 2 int.
struct Node {
  std::uint8_t kind;          // 0: Kind of src/espalier/tree/kind.h
  std::uint8_t key_kind;      // 1
  std::uint8_t has_label;     // 2
  std::uint8_t boolean;       // 3: the value of a bool
  std::uint32_t children;     // 4: how many
  std::uint32_t first_child;  // 8: node number of the first; the others follow it
  std::uint32_t tensor;       // 12: tensor number of a tensor or placeholder, or kNone
  Text key;                   // 16
  std::int64_t int_key;       // 24
  Text label;                 // 32
  Text value;                 // 40: of string; bytes; bigint (two's complement, little-endian)
  std::uint64_t bits[2];      // 48: of int64, float64 (first), complex128 (real, imaginary)
};

/// Keys of neighbours, one behind the other.
struct Keys {
  Text text;                  // 0: text keys as they are, int keys in decimal
  const std::uint32_t* ends;  // 8: of each key, where it ends in the text; the highest bit: an int
  std::uint32_t count;        // 12: how many keys there are
};

/// Tied tensors count once, placeholders as tensors alone. 2^64 - 1 stands for more, too.
struct Totals {
  std::uint64_t tensors;   // 0
  std::uint64_t elements;  // 8
  std::uint64_t bytes;     // 16: of the elements, packed
  std::uint64_t stored;    // 24: in the file
};

struct TensorInfo {
  std::uint8_t dtype;            // 0: DType of src/espalier/tree/dtype.h
  std::uint8_t is_placeholder;   // 1
  std::uint8_t has_hash;         // 2
  std::uint8_t is_raw;           // 3: all of it lies in the file as it is, at raw_offset
  std::uint32_t rank;            // 4
  const std::uint64_t* shape;    // 8: one for each axis; points into the checkpoint
  std::uint32_t chunks;          // 12
  std::uint64_t elements;        // 16
  std::uint64_t bytes;           // 24: unpacked
  std::uint64_t stored;          // 32: in the file
  std::uint64_t raw_offset;      // 40
  std::uint8_t hash[16];         // 48: content hash
  Text block;                    // 64: of an opaque tensor, the block type's name
  std::uint32_t block_elements;  // 72
  std::uint32_t block_bytes;     // 76
  const Text* axis_names;        // 80: one for each axis, or null; until the next espalier_tensor()
  std::uint32_t zero;            // 84
};

struct SliceSpec {
  std::int64_t start;       // 0
  std::int64_t stop;        // 8
  std::int64_t step;        // 16
  std::uint32_t has_start;  // 24
  std::uint32_t has_stop;   // 28
};

struct PlanInfo {
  std::uint64_t bytes;         // 0: of the result
  const std::uint64_t* shape;  // 8: of the result
  std::uint32_t rank;          // 12
  std::uint32_t chunks;        // 16: that must be delivered
  std::uint32_t is_exclusive;  // 20: 0: pieces overlap in single bits, and must be or-ed together
  const std::uint64_t* copy;   // 24: for espalier_decoding()
  std::uint32_t copy_words;    // 28
};

/// What the decoder must know of a chunk. JavaScript hands it on as it is.
struct ChunkTask {
  std::uint64_t begin;     // 0: its first byte: of a read, in the tensor; of a region, in the file
  std::uint8_t hash[16];   // 8
  std::uint32_t stored;    // 24: bytes in the file
  std::uint32_t length;    // 28: bytes that they give
  std::uint8_t codec;      // 32: Codec of src/espalier/codec/codec.h
  std::uint8_t width;      // 33: of an element, in bytes
  std::uint8_t is_float;   // 34
  std::uint8_t has_hash;   // 35
  std::uint8_t number[4];  // 36: NumberForm of src/espalier/codec/number_form.h, field by field
};

/// One chunk that a plan needs, and the part of the result that comes of it.
struct PlannedChunk {
  Extent stored;               // 0
  std::uint64_t result_begin;  // 24
  std::uint32_t result_bytes;  // 32
  std::uint32_t is_direct;     // 36: the part is the stored bytes as they are
  ChunkTask task;              // 40
};

/// A stretch of a file that holds chunks, in order, and nothing else but zeros before each.
struct RegionTask {
  std::uint64_t begin;      // 0
  std::uint64_t length;     // 8
  const ChunkTask* chunks;  // 16
  std::uint32_t count;      // 20
};

/// Damage in a region.
struct DamagedSpot {
  std::uint64_t offset;  // 0: in the file
  std::uint32_t chunk;   // 8: the chunk concerned, counted within the region
  std::uint32_t fault;   // 12: Fault of src/espalier/codec/region_check.h
};

struct DamagedSpots {
  const DamagedSpot* spots;  // 0
  std::uint32_t count;       // 4
};

/// Bytes in memory, and where they belong.
struct Piece {
  const std::byte* data;  // 0
  std::uint32_t length;   // 4
  std::uint64_t offset;   // 8
};

struct Report {
  std::uint32_t has_hashes;  // 0
  std::uint32_t listed;      // 4: errors that espalier_verify_error() tells
  std::uint64_t chunks;      // 8
  std::uint64_t bytes;       // 16
  std::uint64_t errors;      // 24: all that were found
};

/// Statistics of the elements. All but the counts are of the finite ones.
struct Statistics {
  std::uint64_t finite;      // 0
  std::uint64_t zeros;       // 8
  std::uint64_t nans;        // 16
  std::uint64_t infinities;  // 24
  std::uint32_t range_kind;  // 32: min and max are 0 nothing, 1 int64, 2 uint64, 3 float64
  std::uint32_t zero;        // 36
  std::uint64_t min;         // 40: bits
  std::uint64_t max;         // 48: bits
  double mean;               // 56
  double deviation;          // 64: of the population
};

/// Buckets of a histogram, from the least to the greatest: counts[i] of the finite elements lie
/// between lower[i] and upper[i]. Above zero the lower edge belongs to a bucket, below zero the
/// upper; zeros have one of their own, whose edges are 0. src/espalier/tree/statistics.h says the
/// rest. Buckets that hold nothing are left out.
struct HistogramView {
  const double* lower;          // 0: buckets
  const double* upper;          // 4: buckets
  const std::uint64_t* counts;  // 8: buckets
  std::uint32_t buckets;        // 12
};

/// Differences of two trees. Each has 12 bytes: a Change of src/espalier/report/structure_diff.h in
/// one byte at 0, and the nodes in both trees at 4 and 8, or kNone.
struct DiffInfo {
  const espalier::Difference* differences;  // 0
  std::uint32_t count;                      // 4
  std::uint32_t in_state;                   // 8: the first ones; the others are in the metadata
  std::uint32_t equal_tensors;              // 12
};

class Opening;
class Tree;
class Diff;
class Matches;
class Read;
class Verification;
class Decoding;
class Counting;
class Write;

// Memory -----------------------------------------------------------------------------------------

/// Null if there is none.
ESPALIER_ABI void* espalier_allocate(std::uint32_t bytes);
/// Frees what espalier_allocate() gave. Null is fine.
ESPALIER_ABI void espalier_free(void* memory);
/// About the last failure. Valid until the next call of any function.
ESPALIER_ABI const Failure* espalier_last_error();
/// snake_case name of an ErrorCode; static.
ESPALIER_ABI void espalier_error_name(std::uint32_t code, Text* out);
/// Name of a dtype number ("bf16"); static; empty if there is no such number.
ESPALIER_ABI void espalier_dtype_name(std::uint32_t dtype, Text* out);
/// Bits of an element; 0 for opaque blocks.
ESPALIER_ABI std::uint32_t espalier_dtype_bits(std::uint32_t dtype);
/// Name of a kind number ("dict"); static; empty if there is no such number.
ESPALIER_ABI void espalier_kind_name(std::uint32_t kind, Text* out);

// Opening ----------------------------------------------------------------------------------------

/// Opens a file of `file_size` bytes, of any format that the core reads. `index_bytes` lowers
/// Limits::index_bytes and the limit on safetensors headers; 0 leaves them. `nest` is 1 if dotted
/// names shall become nested dicts. Never null.
ESPALIER_ABI Opening* espalier_open(std::uint64_t file_size, std::uint32_t index_bytes,
                                    std::uint32_t nest);
/// Writes up to `capacity` extents that are still needed and returns how many there are.
ESPALIER_ABI std::uint32_t espalier_open_needs(Opening* opening, Extent* out,
                                               std::uint32_t capacity);
/// The next further file that the checkpoint has bytes in and no answer came about; 0 if there is
/// none. The name is valid until the answer.
ESPALIER_ABI std::uint32_t espalier_open_wants(Opening* opening, WantedFile* out);
/// Answers that a wanted file has so many bytes.
ESPALIER_ABI Status espalier_open_answer(Opening* opening, std::uint32_t file, std::uint64_t size);
/// Answers why a wanted file cannot be read: it is missing, or something else is wrong. Tensors in
/// other files can be read all the same.
ESPALIER_ABI Status espalier_open_refuse(Opening* opening, std::uint32_t file,
                                         std::uint32_t is_missing, const char* message,
                                         std::uint32_t length);
/// Takes bytes of a file, in pieces of any size and order. It ignores bytes that it does not need.
ESPALIER_ABI Status espalier_open_feed(Opening* opening, std::uint32_t file, std::uint64_t offset,
                                       const std::byte* bytes, std::uint32_t length);
/// Validates everything and gives the checkpoint, or null. The opening must still be freed.
ESPALIER_ABI Tree* espalier_open_finish(Opening* opening);
ESPALIER_ABI void espalier_open_free(Opening* opening);

// The tree ---------------------------------------------------------------------------------------

ESPALIER_ABI void espalier_tree_free(Tree* tree);
ESPALIER_ABI void espalier_tree_info(Tree* tree, Info* out);
/// 1 if dotted names were split, 0 if the tree is the one that the file stores.
ESPALIER_ABI std::uint32_t espalier_is_nested(Tree* tree);
/// Key, label and value point into the checkpoint and live as long as it.
ESPALIER_ABI Status espalier_node(Tree* tree, std::uint32_t node, Node* out);
/// The parent of a node; kNone for roots. The first call for a tree makes a table of all parents (4
/// bytes for each node).
ESPALIER_ABI std::uint32_t espalier_parent(Tree* tree, std::uint32_t node);
/// The printed key path of a node, from its root on. Valid until the next call for this tree.
ESPALIER_ABI Status espalier_path(Tree* tree, std::uint32_t node, Text* out);
/// The node at a printed key path below `node`; kNone and an error if there is none.
ESPALIER_ABI std::uint32_t espalier_find(Tree* tree, std::uint32_t node, const char* path,
                                         std::uint32_t length);
/// The child of `node` under a text key; kNone, without an error, if there is none.
ESPALIER_ABI std::uint32_t espalier_child_text(Tree* tree, std::uint32_t node, const char* key,
                                               std::uint32_t length);
/// The child under an int key, or at a position of a list, tuple or set; likewise.
ESPALIER_ABI std::uint32_t espalier_child_int(Tree* tree, std::uint32_t node, std::int64_t key);

/// Keys of the children of a dict or record from position `first` on: up to `count`, and fewer
/// where they are long, but one at least. Valid until the next call of this function for this tree.
ESPALIER_ABI Status espalier_keys(Tree* tree, std::uint32_t node, std::uint32_t first,
                                  std::uint32_t count, Keys* out);

/// What espalier_match() selects of.
struct MatchOptions {
  std::uint32_t ignores_case;  // 0: the letters A to Z are the same as a to z
  std::uint32_t tensors_only;  // 4: tensors and placeholders, of which what follows is asked for
  std::uint32_t dtype;         // 8: 0 for any
  std::uint32_t zero;          // 12
  std::uint64_t least_bytes;   // 16: packed
};

/// The nodes below `root` (itself included) that `patterns` select, with everything below them; no
/// patterns select all. In tree order. Null, with an error, for a bad pattern. A pattern that
/// matches nothing is no error.
ESPALIER_ABI Matches* espalier_match(Tree* tree, std::uint32_t root, const Text* patterns,
                                     std::uint32_t count, const MatchOptions* options);
ESPALIER_ABI const std::uint32_t* espalier_match_nodes(Matches* matches);
ESPALIER_ABI std::uint32_t espalier_match_count(Matches* matches);
ESPALIER_ABI void espalier_match_free(Matches* matches);

/// Sums over a node and all below it. Looks at all of those nodes.
ESPALIER_ABI Status espalier_totals(Tree* tree, std::uint32_t node, Totals* out);
/// The same over several nodes, for each element type: `out` has room for one more than there are,
/// and is read by their numbers.
ESPALIER_ABI Status espalier_totals_by_dtype(Tree* tree, const std::uint32_t* nodes,
                                             std::uint32_t count, Totals* out);

/// The printed key path of the first node that names a tensor, for errors. Looks through the whole
/// tree. Valid until the next call for this tree.
ESPALIER_ABI Status espalier_tensor_path(Tree* tree, std::uint32_t tensor, Text* out);
/// Shape, block and names point into the checkpoint.
ESPALIER_ABI Status espalier_tensor(Tree* tree, std::uint32_t tensor, TensorInfo* out);

// Comparing --------------------------------------------------------------------------------------

/// Compares the states and the metadata of two trees, which both are in this module's memory. Null
/// with an error if that fails.
ESPALIER_ABI Diff* espalier_diff(Tree* a, Tree* b);
/// The differences are valid as long as the diff.
ESPALIER_ABI void espalier_diff_info(Diff* diff, DiffInfo* out);
ESPALIER_ABI void espalier_diff_free(Diff* diff);

// Reading ----------------------------------------------------------------------------------------

/// Plans to read a tensor, or a slice of it; null with an error if that cannot be. The tree must
/// outlive it.
ESPALIER_ABI Read* espalier_read(Tree* tree, std::uint32_t tensor, const SliceSpec* slices,
                                 std::uint32_t count);
ESPALIER_ABI void espalier_read_info(Read* read, PlanInfo* out);
/// Chunk number `i` of those that the read needs, in file order.
ESPALIER_ABI Status espalier_read_chunk(Read* read, std::uint32_t i, PlannedChunk* out);
ESPALIER_ABI void espalier_read_free(Read* read);

// Verifying --------------------------------------------------------------------------------------

/// Plans to verify the whole file. The tree must outlive it.
ESPALIER_ABI Verification* espalier_verify(Tree* tree);
/// Regions that together hold all that is to be checked; 0 for a format without hashes.
ESPALIER_ABI std::uint32_t espalier_verify_regions(Verification* verification);
ESPALIER_ABI Status espalier_verify_region(Verification* verification, std::uint32_t i,
                                           Extent* out);
/// What the decoder must know of region `i`. Valid until the next call for this verification.
ESPALIER_ABI Status espalier_verify_task(Verification* verification, std::uint32_t i,
                                         RegionTask* out);
/// Takes the damage that the decoder found in region `i`.
ESPALIER_ABI Status espalier_verify_damage(Verification* verification, std::uint32_t i,
                                           const DamagedSpot* spots, std::uint32_t count);
/// Chunks found to be damaged so far.
ESPALIER_ABI std::uint32_t espalier_verify_damaged(Verification* verification);
/// Once all regions were fed; also checks the tree digest. Call once.
ESPALIER_ABI Status espalier_verify_finish(Verification* verification, Report* out);
/// Error number `i` of the report; valid as long as the verification.
ESPALIER_ABI Status espalier_verify_error(Verification* verification, std::uint32_t i,
                                          Failure* out);
ESPALIER_ABI void espalier_verify_free(Verification* verification);

// Decoding (decoder.wasm) ------------------------------------------------------------------------

/// Begins to decode the chunks of one read: `copy` and `chunks` are the plan's. Never null.
ESPALIER_ABI Decoding* espalier_decoding(const std::uint64_t* copy, std::uint32_t words,
                                         std::uint32_t chunks);
/// Decodes and checks the stored bytes of a chunk: gives the part of the result that they hold, and
/// where it belongs. It may be `stored` itself; valid until the next call of any function. Chunks
/// may come in any order, each once. If chunks are spread over the result, all parts but that of
/// the last call are empty, and that is the whole result. Errors say neither offset nor path.
ESPALIER_ABI Status espalier_decode(Decoding* decoding, const ChunkTask* task,
                                    const std::byte* stored, std::uint32_t length, Piece* out);
ESPALIER_ABI void espalier_decoding_free(Decoding* decoding);
/// Checks a region: `task` is the verification's. Damage is no failure. Valid until the next call.
ESPALIER_ABI Status espalier_check_region(const RegionTask* task, const std::byte* bytes,
                                          std::uint32_t length, DamagedSpots* out);

// Statistics (decoder.wasm) ----------------------------------------------------------------------

/// Statistics of elements of `dtype`, which come in pieces.
ESPALIER_ABI Counting* espalier_statistics(std::uint32_t dtype);
/// Takes packed elements, as chunks hold them: elements of six bits may continue in the next piece,
/// all others are whole.
ESPALIER_ABI void espalier_statistics_add(Counting* counting, const std::byte* packed,
                                          std::uint32_t length);
ESPALIER_ABI void espalier_statistics_result(Counting* counting, Statistics* out);
/// All buckets that hold anything, with their exact counts: a bucket is 1/128 of its numbers wide
/// at most. Valid until the next call for this handle.
ESPALIER_ABI void espalier_statistics_histogram(Counting* counting, HistogramView* out);
ESPALIER_ABI void espalier_statistics_free(Counting* counting);

// Writing (writer.wasm) --------------------------------------------------------------------------

/// Makes the bytes of tensor `id` from byte `offset` on: JavaScript's part. 0, or a status that
/// ends the write.
#ifdef __EMSCRIPTEN__
extern "C" __attribute__((import_module("env"), import_name("espalier_produce"))) Status
espalier_produce(std::uint32_t id, std::uint64_t offset, std::byte* out, std::uint32_t length);
#else
extern "C" Status espalier_produce(std::uint32_t id, std::uint64_t offset, std::byte* out,
                                   std::uint32_t length);
#endif

/// An empty write. The tree is then built from the top: first the state, one value, then the
/// metadata, a dict. A value within a dict or record comes after its key; a value may come after
/// its label. Mistakes show at espalier_write_plan().
ESPALIER_ABI Write* espalier_write();
ESPALIER_ABI void espalier_write_text_key(Write* write, const char* key, std::uint32_t length);
ESPALIER_ABI void espalier_write_int_key(Write* write, std::int64_t key);
ESPALIER_ABI void espalier_write_label(Write* write, const char* label, std::uint32_t length);
/// A container (dict, list, tuple, set, record): its children follow, until espalier_write_end().
ESPALIER_ABI void espalier_write_begin(Write* write, std::uint32_t kind);
ESPALIER_ABI void espalier_write_end(Write* write);
/// Null, bool, int64, float64, complex128, by their bits.
ESPALIER_ABI void espalier_write_number(Write* write, std::uint32_t kind, std::uint64_t a,
                                        std::uint64_t b);
/// String, bytes or bigint (two's complement, little-endian).
ESPALIER_ABI void espalier_write_bytes(Write* write, std::uint32_t kind, const std::byte* data,
                                       std::uint32_t length);
/// A tensor, or a placeholder. Tensors of the same `id` are tied: described once, by the first.
ESPALIER_ABI void espalier_write_tensor(Write* write, std::uint32_t id, std::uint32_t dtype,
                                        const std::uint64_t* shape, std::uint32_t rank,
                                        std::uint32_t is_placeholder, const Text* axis_names,
                                        std::uint32_t axis_count, const Text* block_name,
                                        std::uint32_t block_elements, std::uint32_t block_bytes);
/// Lays the file out; its length and the number of pieces that make it.
ESPALIER_ABI Status espalier_write_plan(Write* write, std::uint64_t* length, std::uint32_t* pieces);
/// The bytes of piece `i`, in order from 0: the tensors' data first, then the index, then the
/// header. What no piece covers is zero.
ESPALIER_ABI Status espalier_write_piece(Write* write, std::uint32_t i, Piece* out);
ESPALIER_ABI void espalier_write_free(Write* write);

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_ABI_H_
