// The C interface that the WebAssembly modules export to JavaScript.
//
// It only marshals: every function passes its arguments to the C++ core and lays the answer out in
// memory. The only caller is `wasm/src/core`. The two are built and shipped together, so nothing
// here is stable between versions.
//
// Each module exports memory and errors, and a part of the rest:
//   - core.wasm opens Espalier files, holds the tree, and plans reads and verifications
//   - core-all.wasm is the same for files of every format; it also nests names, makes files, and
//     compares checksums and checkpoints
//   - core-map.wasm plans what key maps make of trees, holds the trees that they make, and makes
//     bytes of their tensors
//   - engine.wasm turns stored bytes into checked ones, computes statistics, surveys tensors and
//     finds what is wrong with them; it knows no file and no tree
//   - writer.wasm makes files of values and of trees that others hold
//
// Conventions
//   - Memory is that of the module. A pointer is a u32 offset. Records are little-endian C structs;
//     the comment beside each field gives its offset.
//   - Text is UTF-8 with a length, never zero-terminated.
//   - `Status` is 0, or the number of an ErrorCode (src/espalier/base/error.h). If it is not 0, or
//     if a function that makes something returns null, espalier_last_error() has the details.
//   - The caller owns handles (Opening*, Checkpoint*, ...) and frees each with the function named
//     for it. The source of a handle must outlive it only where a comment says so.
//   - Returned pointers point into the handle. They are valid until the next call that takes the
//     same handle, unless a comment says otherwise. Any call may grow the memory, which detaches
//     every JavaScript view of it.
//   - Bytes of files may be anything. Handles must come from this module. Node, tensor, chunk and
//     region numbers are checked, because a number from a page's address bar ends up here.
//   - Running out of memory traps where the core cannot report it. The instance is unusable then.
//   - One thread.
#ifndef ESPALIER_WASM_ABI_H_
#define ESPALIER_WASM_ABI_H_

#include <cstdint>

#include "espalier/bytes.h"

#ifdef __EMSCRIPTEN__
#define ESPALIER_ABI extern "C" __attribute__((used, visibility("default")))
#else
#define ESPALIER_ABI extern "C"
#endif

namespace espalier {
struct Difference;
enum class StatePart : std::uint8_t;
struct Tables;
}  // namespace espalier

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
  std::uint64_t offset;  // 8: in the file; all ones if no position applies
  Text path;             // 16: key path, may be empty
  Text message;          // 24
  Text file;             // 32: name of the file with the error; empty for the opened file
};

/// A further file that holds bytes of a checkpoint.
struct WantedFile {
  std::uint32_t number;      // 0: its number in extents
  std::uint32_t is_sibling;  // 4: 0 if the name could lead out of the folder of the opened file
  Text name;                 // 8: from the file: a label, not a path
};

/// A file whose bytes espalier_make() makes.
struct MadeFile {
  std::uint32_t number;  // 0
  std::uint32_t check;   // 4: 1 if making it finds damage, 2 if it also compares a checksum, 0
  std::uint64_t length;  // 8
  Text name;             // 16: a label, not a path
};

/// A range of a file; file 0 is the opened one.
struct Extent {
  std::uint32_t file;    // 0
  std::uint32_t zero;    // 4
  std::uint64_t offset;  // 8
  std::uint64_t length;  // 16
};

struct Info {
  std::uint32_t has_hashes;     // 0: 0 or 1
  std::uint32_t zero;           // 4
  std::uint32_t nodes;          // 8
  std::uint32_t tensors;        // 12
  std::uint64_t file_length;    // 16
  std::uint64_t data_begin;     // 24: the first byte after header and index
  std::uint32_t state_root;     // 32
  std::uint32_t metadata_root;  // 36
  std::uint8_t digest[16];      // 40: the tree digest as in the file; zeros without hashes
  std::uint64_t notes;          // 56: of the opener, listed or not
  Text format;                  // 64: the name of its row
};

/// The row of a format.
struct FormatRow {
  Text name;                   // 0
  Text title;                  // 8: for people, in a list
  Text part_ending;            // 16: of the names of further files; may be empty
  std::uint32_t needs_folder;  // 24: 0 or 1
  std::uint32_t endings;       // 28: of names of files
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

/// Keys of consecutive children, concatenated.
struct Keys {
  Text text;                  // 0: text keys as they are, int keys in decimal
  const std::uint32_t* ends;  // 8: end of each key in the text; the highest bit marks an int
  std::uint32_t count;        // 12: number of keys
};

/// Tied tensors count once; placeholders count only as tensors. 2^64 - 1 also means more than that.
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
  std::uint8_t is_raw;           // 3: the whole tensor is stored raw at raw_offset
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
  std::uint32_t is_exclusive;  // 20: 0: pieces overlap in single bits and must be or-ed together
  const std::uint64_t* copy;   // 24: for espalier_decoding()
  std::uint32_t copy_words;    // 28
};

/// The decoder's input for a chunk. JavaScript passes it on unchanged, with the tasks of its bases
/// behind it.
struct ChunkTask {
  std::uint64_t begin;    // 0: its first byte: for a read, in the tensor; for a region, in the file
  std::uint8_t hash[16];  // 8
  std::uint32_t stored;   // 24: bytes in the file
  std::uint32_t length;   // 28: bytes after decoding
  std::uint8_t codec;     // 32: Codec of src/espalier/codec/codec.h
  std::uint8_t width;     // 33: of an element, in bytes
  std::uint8_t is_float;  // 34
  std::uint8_t has_hash;  // 35
  std::uint8_t number[4];  // 36: NumberForm of src/espalier/codec/number_form.h, field by field
  std::uint32_t bases;     // 40: of a patch
  std::uint32_t zero;      // 44
};

/// The decoder's input for a base of a patch.
struct BaseTask {
  std::uint8_t hash[16];  // 0
  std::uint32_t stored;   // 16: bytes in the file
  std::uint8_t codec;     // 20
  std::uint8_t zero[3];   // 21
};

/// A base of a patch: where its stored bytes lie.
struct PlannedBase {
  Extent stored;  // 0
  BaseTask task;  // 24
};

/// One chunk that a plan needs, and its part of the result.
struct PlannedChunk {
  Extent stored;               // 0
  std::uint64_t result_begin;  // 24
  std::uint32_t result_bytes;  // 32
  std::uint32_t is_direct;     // 36: the part equals the stored bytes
  ChunkTask task;              // 40
};

/// A range of a file that holds only chunks, in order, and zeros before each.
struct RegionTask {
  std::uint64_t begin;      // 0
  std::uint64_t length;     // 8
  const ChunkTask* chunks;  // 16
  std::uint32_t count;      // 20
};

/// Damage in a region.
struct DamagedSpot {
  std::uint64_t offset;  // 0: in the file
  std::uint32_t chunk;   // 8: the damaged chunk, counted within the region
  std::uint32_t fault;   // 12: Fault of src/espalier/codec/region_check.h, and the base * 256
};

struct DamagedSpots {
  const DamagedSpot* spots;  // 0
  std::uint32_t count;       // 4
};

/// Bytes in memory, and their offset in the result or file.
struct Piece {
  const std::byte* data;  // 0
  std::uint32_t length;   // 4
  std::uint64_t offset;   // 8
};

struct Report {
  std::uint32_t has_hashes;  // 0
  std::uint32_t listed;      // 4: number of errors for espalier_verify_error()
  std::uint64_t chunks;      // 8
  std::uint64_t bytes;       // 16
  std::uint64_t errors;      // 24: all errors found
  std::uint64_t unchecked;   // 32: bytes of tensors
};

/// What the checksums of a format cover.
struct ChecksumInfo {
  std::uint32_t pieces;     // 0
  std::uint32_t checksums;  // 4
  std::uint64_t unchecked;  // 8: bytes of tensors that have none
};

/// Statistics of the elements. Everything except the counts covers only finite elements.
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

/// An index that there is none of.
inline constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

/// What espalier::TensorSurvey has, except for its outliers.
struct SurveyResult {
  Statistics statistics;         // 0
  double norm;                   // 72
  double rms;                    // 80
  double median_size;            // 88
  double size_90;                // 96
  double size_99;                // 104
  double size_999;               // 112
  std::uint64_t saturated;       // 120
  std::uint64_t first_nan;       // 128: or kNowhere
  std::uint64_t first_infinite;  // 136: or kNowhere
  std::uint64_t elements;        // 144
  std::uint64_t rows;            // 152: 0 if it is no matrix
  std::uint64_t columns;         // 160
  std::uint64_t dead_rows;       // 168
  std::uint64_t dead_columns;    // 176
};

/// espalier::Finding.
struct HealthFinding {
  std::uint32_t rule;      // 0: a HealthRule
  std::uint32_t severity;  // 4: a Severity
  Text path;               // 8
  Text other;              // 16
  Text text;               // 24
  std::uint64_t at;        // 32: or kNowhere
};

/// Buckets of a histogram in ascending order: counts[i] finite elements lie between lower[i] and
/// upper[i]. Above zero a bucket includes its lower edge, below zero its upper edge. Zeros have a
/// bucket with edges 0. Empty buckets are left out. src/espalier/tree/statistics.h has the details.
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
  std::uint32_t in_state;                   // 8: these come first; the others are in the metadata
  std::uint32_t equal_tensors;              // 12
};

/// Bytes of a tensor of one of the checkpoints that a map reads.
struct MapNeed {
  std::uint32_t input;   // 0
  std::uint32_t tensor;  // 4
  std::uint64_t offset;  // 8
  std::uint64_t length;  // 16
};

/// Bytes that a piece of a new file is made of.
struct WriteNeed {
  std::uint32_t source;     // 0: from espalier_write_source()
  std::uint32_t number;     // 4: of a tensor there or, if is_stored, of a file
  std::uint32_t is_stored;  // 8: whether they are of that file, and not of the tensor
  std::uint32_t zero;       // 12
  std::uint64_t offset;     // 16
  std::uint64_t length;     // 24
};

/// A file of a tree, for a copy of it.
struct CopiedFile {
  Text name;                 // 0: empty for file 0
  std::uint64_t length;      // 8
  std::uint32_t is_missing;  // 16: whether it cannot be read
  std::uint32_t zero;        // 20
};

struct WriteNeeds {
  const WriteNeed* needs;  // 0
  std::uint32_t count;     // 4
  std::uint64_t bytes;  // 8: of the piece, as long as nothing is compressed; or that are compared
};

class Opening;
class Tree;
class Diff;
class Mapping;
class Matches;
class Read;
class Making;
class Verification;
class Checksums;
class Decoding;
class Counting;
class Survey;
class Health;
class Write;

// Memory -----------------------------------------------------------------------------------------

/// Null without memory.
ESPALIER_ABI void* espalier_allocate(std::uint32_t bytes);
/// Frees memory from espalier_allocate(). Null is fine.
ESPALIER_ABI void espalier_free(void* memory);
/// The last failure. Valid until the next call of any function.
ESPALIER_ABI const Failure* espalier_last_error();

// Names (core-all.wasm, for tests) ---------------------------------------------------------------

/// snake_case name of an ErrorCode; static.
/// The row of format number `i`; 0 if there is none.
ESPALIER_ABI std::uint32_t espalier_format(std::uint32_t i, FormatRow* out);
/// One of its endings; both numbers must be in range.
ESPALIER_ABI void espalier_format_ending(std::uint32_t i, std::uint32_t ending, Text* out);
ESPALIER_ABI void espalier_error_name(std::uint32_t code, Text* out);
/// Name of a dtype number ("bf16"); static; empty for unknown numbers.
ESPALIER_ABI void espalier_dtype_name(std::uint32_t dtype, Text* out);
/// Bits of an element; 0 for opaque blocks.
ESPALIER_ABI std::uint32_t espalier_dtype_bits(std::uint32_t dtype);
/// Name of a kind number ("dict"); static; empty for unknown numbers.
ESPALIER_ABI void espalier_kind_name(std::uint32_t kind, Text* out);

// Opening ----------------------------------------------------------------------------------------

/// Opens a file of `file_size` bytes, of any format that the core reads. `index_bytes` lowers
/// Limits::index_bytes and the limits on headers of other formats; 0 keeps the defaults. `nest` is
/// 1 to turn dotted names into nested dicts, which core.wasm ignores. `name` is the file's own, as
/// in OpenOptions::name, and may be empty. Never null.
ESPALIER_ABI Opening* espalier_open(std::uint64_t file_size, std::uint32_t index_bytes,
                                    std::uint32_t nest, const char* name,
                                    std::uint32_t name_length);
/// Writes up to `capacity` extents that are still needed and returns how many there are.
ESPALIER_ABI std::uint32_t espalier_open_needs(Opening* opening, Extent* out,
                                               std::uint32_t capacity);
/// Writes up to `capacity` further files that still need an answer and returns how many there are.
/// The names are valid until the next answer.
ESPALIER_ABI std::uint32_t espalier_open_wants(Opening* opening, WantedFile* out,
                                               std::uint32_t capacity);
/// Answers a wanted file with its size in bytes.
ESPALIER_ABI Status espalier_open_answer(Opening* opening, std::uint32_t file, std::uint64_t size);
/// Answers a wanted file with the error that prevents reading it. Tensors in other files can still
/// be read.
ESPALIER_ABI Status espalier_open_refuse(Opening* opening, std::uint32_t file,
                                         std::uint32_t is_missing, const char* message,
                                         std::uint32_t length);
/// Feeds bytes of a file, in pieces of any size and order. Unneeded bytes are ignored.
ESPALIER_ABI Status espalier_open_feed(Opening* opening, std::uint32_t file, std::uint64_t offset,
                                       const std::byte* bytes, std::uint32_t length);
/// Validates everything and returns the checkpoint, or null. The opening must still be freed.
ESPALIER_ABI Tree* espalier_open_finish(Opening* opening);
ESPALIER_ABI void espalier_open_free(Opening* opening);

// The tree ---------------------------------------------------------------------------------------

ESPALIER_ABI void espalier_tree_free(Tree* tree);
ESPALIER_ABI void espalier_tree_info(Tree* tree, Info* out);
/// Item `i` of a list: the problems of files, then the notes that the opener lists. 0 after the
/// last one; 1 for a problem, which fills `out`; 2 for a loss and 3 for a warning, which fill only
/// `path` and `message`. A note's path is that of the stored tree. Valid as long as the tree.
ESPALIER_ABI std::uint32_t espalier_note(Tree* tree, std::uint32_t i, Failure* out);
/// 1 if dotted names were split, 0 if the tree is the one that the file stores.
ESPALIER_ABI std::uint32_t espalier_is_nested(Tree* tree);
/// 1 if the state has text keys with dots, which core-all.wasm could split.
ESPALIER_ABI std::uint32_t espalier_has_dotted_keys(Tree* tree);
/// Key, label and value point into the checkpoint and live as long as it.
ESPALIER_ABI Status espalier_node(Tree* tree, std::uint32_t node, Node* out);
/// The parent of a node; kNone for roots. The first call for a tree makes a table of all parents (4
/// bytes for each node).
ESPALIER_ABI std::uint32_t espalier_parent(Tree* tree, std::uint32_t node);
/// The printed key path of a node from its root. Valid until the next call for this tree.
ESPALIER_ABI Status espalier_path(Tree* tree, std::uint32_t node, Text* out);
/// The node at a printed key path below `node`; kNone if there is none. Fails for text that is not
/// a key path.
ESPALIER_ABI Status espalier_find(Tree* tree, std::uint32_t node, const char* path,
                                  std::uint32_t length, std::uint32_t* out);
/// The child of `node` under a text key; kNone, without an error, if there is none.
ESPALIER_ABI std::uint32_t espalier_child_text(Tree* tree, std::uint32_t node, const char* key,
                                               std::uint32_t length);
/// The child under an int key, or at a position of a list, tuple or set; likewise.
ESPALIER_ABI std::uint32_t espalier_child_int(Tree* tree, std::uint32_t node, std::int64_t key);

/// Keys of the children of a dict or record from position `first` on: at least one, at most
/// `count`, fewer if they are long. Valid until the next call of this function for this tree.
ESPALIER_ABI Status espalier_keys(Tree* tree, std::uint32_t node, std::uint32_t first,
                                  std::uint32_t count, Keys* out);

/// Filters for espalier_match().
struct MatchOptions {
  std::uint32_t ignores_case;  // 0: the letters A to Z match a to z
  std::uint32_t
      tensors_only;           // 4: only tensors and placeholders; the next two fields apply to them
  std::uint32_t dtype;        // 8: 0 for any
  std::uint32_t zero;         // 12
  std::uint64_t least_bytes;  // 16: packed
};

/// The nodes below `root` (included) that `patterns` select, with everything below them; no
/// patterns select all. In tree order. Null, with an error, for a bad pattern. A pattern that
/// matches nothing is not an error.
ESPALIER_ABI Matches* espalier_match(Tree* tree, std::uint32_t root, const Text* patterns,
                                     std::uint32_t count, const MatchOptions* options);
ESPALIER_ABI const std::uint32_t* espalier_match_nodes(Matches* matches);
ESPALIER_ABI std::uint32_t espalier_match_count(Matches* matches);
ESPALIER_ABI void espalier_match_free(Matches* matches);

/// Sums over a node and all below it. Visits all of those nodes.
ESPALIER_ABI Status espalier_totals(Tree* tree, std::uint32_t node, Totals* out);
/// The same over several nodes, for each element type: `out` is indexed by dtype number and has one
/// entry more than there are dtypes.
ESPALIER_ABI Status espalier_totals_by_dtype(Tree* tree, const std::uint32_t* nodes,
                                             std::uint32_t count, Totals* out);

/// The printed key path of the first node that names a tensor, for errors. Searches the whole tree.
/// Valid until the next call for this tree.
ESPALIER_ABI Status espalier_tensor_path(Tree* tree, std::uint32_t tensor, Text* out);
/// Shape, block and names point into the checkpoint.
ESPALIER_ABI Status espalier_tensor(Tree* tree, std::uint32_t tensor, TensorInfo* out);

// Comparing --------------------------------------------------------------------------------------

/// The tables of a tree, as wasm/src/core/copy-tree.ts copies them to another module. Valid as long
/// as the tree.
ESPALIER_ABI const Tables* espalier_tables(Tree* tree);
/// A tree of such tables, which it copies and does not validate again. It can be compared, and its
/// tensors cannot be read. `digest` is the tree digest, or null. Never null.
ESPALIER_ABI Tree* espalier_tree_of_tables(const Tables* tables, const std::uint8_t* digest);
/// Compares the states and the metadata of two trees in this module's memory. Null, with an error,
/// on failure.
ESPALIER_ABI Diff* espalier_diff(Tree* a, Tree* b);
/// The differences are valid as long as the diff.
ESPALIER_ABI void espalier_diff_info(Diff* diff, DiffInfo* out);
ESPALIER_ABI void espalier_diff_free(Diff* diff);
/// The part of the state that each node belongs to, by its number: a StatePart. Valid as long as
/// the tree.
ESPALIER_ABI const StatePart* espalier_parts(Tree* tree);

// Key maps (core-map.wasm)
// -------------------------------------------------------------------------

/// The texts of the maps that come with the library: a JSON object of names and texts. Static.
ESPALIER_ABI void espalier_key_maps(Text* out);
/// Never null.
ESPALIER_ABI Mapping* espalier_mapping();
/// Adds a checkpoint that the map reads, whose names have this label; its number is that of the
/// call, from 0 on. The tree, of espalier_tree_of_tables(), must outlive the mapping.
ESPALIER_ABI void espalier_mapping_add(Mapping* mapping, Tree* tree, const char* label,
                                       std::uint32_t length);
/// Plans what a map makes. `texts` are the map's and a JSON object of options with any of
/// "reverse", "partial" and "along_scaled" (booleans), "rest" and "at" (texts), "along",
/// "lora" and "param_order" (arrays of texts), "numbers" (an object of words and numbers) and
/// "config" (a model's configuration).
ESPALIER_ABI Status espalier_mapping_plan(Mapping* mapping, const Text* texts);
/// The tree that the map makes, of one file. Null, with an error, on failure.
ESPALIER_ABI Tree* espalier_mapping_tree(Mapping* mapping);
/// What the map makes: a JSON object with "targets", "dropped" and, of an adapter, "lora": its
/// adapter_config(). Valid as long as the mapping.
ESPALIER_ABI void espalier_mapping_text(Mapping* mapping, Text* out);
/// Begins to make bytes of the file of that tree from `offset` on, and gives their number:
/// `length`, or fewer, up to the end of a tensor or of what is between two.
ESPALIER_ABI Status espalier_mapping_begin(Mapping* mapping, std::uint64_t offset,
                                           std::uint32_t length, std::uint32_t* out);
/// The bytes that come next; 0 once all are there, and 1 otherwise.
ESPALIER_ABI std::uint32_t espalier_mapping_need(Mapping* mapping, MapNeed* out);
/// Takes them.
ESPALIER_ABI Status espalier_mapping_feed(Mapping* mapping, const std::uint8_t* bytes,
                                          std::uint32_t length);
/// The bytes that were begun. Valid until the next call for this mapping.
ESPALIER_ABI Status espalier_mapping_take(Mapping* mapping, Text* out);
ESPALIER_ABI void espalier_mapping_free(Mapping* mapping);

// Reading ----------------------------------------------------------------------------------------

/// Plans to read a tensor or a slice of it; null, with an error, on failure. The tree must outlive
/// the plan.
ESPALIER_ABI Read* espalier_read(Tree* tree, std::uint32_t tensor, const SliceSpec* slices,
                                 std::uint32_t count);
ESPALIER_ABI void espalier_read_info(Read* read, PlanInfo* out);
/// Chunk number `i` of the read, in file order.
ESPALIER_ABI Status espalier_read_chunk(Read* read, std::uint32_t i, PlannedChunk* out);
/// Base number `base` of that chunk; 0 if there is none.
ESPALIER_ABI std::uint32_t espalier_read_base(Read* read, std::uint32_t i, std::uint32_t base,
                                              PlannedBase* out);
ESPALIER_ABI void espalier_read_free(Read* read);

// Making files (core-torch.wasm)
// -------------------------------------------------------------------

/// The first file with at least that number that must be made before it is read; 0 if there is
/// none.
ESPALIER_ABI std::uint32_t espalier_made_file(Tree* tree, std::uint32_t from, MadeFile* out);
/// Begins to make a file, in memory of this module; null, with an error, on failure. The tree must
/// outlive it.
ESPALIER_ABI Making* espalier_make(Tree* tree, std::uint32_t file);
/// The next extent that is needed; 0 if there is none. It lies in a file that is not made.
ESPALIER_ABI std::uint32_t espalier_make_needs(Making* making, Extent* out);
/// Feeds the beginning of that extent, or all of it.
ESPALIER_ABI Status espalier_make_feed(Making* making, std::uint32_t file, std::uint64_t offset,
                                       const std::byte* bytes, std::uint32_t length);
/// Checks the whole file and gives its bytes, which are valid until espalier_make_free().
ESPALIER_ABI Status espalier_make_finish(Making* making, Text* out);
ESPALIER_ABI void espalier_make_free(Making* making);

// Verifying --------------------------------------------------------------------------------------

/// Plans to verify the whole file. The tree must outlive the verification.
ESPALIER_ABI Verification* espalier_verify(Tree* tree);
/// The number of regions, which together hold all bytes to check; 0 for a format without hashes.
ESPALIER_ABI std::uint32_t espalier_verify_regions(Verification* verification);
ESPALIER_ABI Status espalier_verify_region(Verification* verification, std::uint32_t i,
                                           Extent* out);
/// Base number `base` of the patch that is region `i`; 0 if there is none.
ESPALIER_ABI std::uint32_t espalier_verify_base(Verification* verification, std::uint32_t i,
                                                std::uint32_t base, PlannedBase* out);
/// The decoder's input for region `i`, without bases. Valid until the next call for this
/// verification.
ESPALIER_ABI Status espalier_verify_task(Verification* verification, std::uint32_t i,
                                         RegionTask* out);
/// Feeds the damage that the decoder found in region `i`.
ESPALIER_ABI Status espalier_verify_damage(Verification* verification, std::uint32_t i,
                                           const DamagedSpot* spots, std::uint32_t count);
/// The number of damaged chunks so far.
ESPALIER_ABI std::uint32_t espalier_verify_damaged(Verification* verification);
/// Finishes once all regions are fed; also checks the tree digest. Call once.
ESPALIER_ABI Status espalier_verify_finish(Verification* verification, Report* out);
/// Error number `i` of the report; valid as long as the verification.
ESPALIER_ABI Status espalier_verify_error(Verification* verification, std::uint32_t i,
                                          Failure* out);
ESPALIER_ABI void espalier_verify_free(Verification* verification);

// Checksums (core-torch.wasm, core-all.wasm) -----------------------------------------------------

/// 1 if a file has checksums in place of hashes, such as the CRC-32 of a zip archive's entries.
ESPALIER_ABI std::uint32_t espalier_has_checksums(Tree* tree);
/// Plans to compare all of them, except for those of made files, which espalier_make_finish()
/// compares. The tree must outlive the plan.
ESPALIER_ABI Checksums* espalier_checksums(Tree* tree);
ESPALIER_ABI void espalier_checksums_info(Checksums* checksums, ChecksumInfo* out);
/// Piece `i` of what they cover.
ESPALIER_ABI Status espalier_checksums_piece(Checksums* checksums, std::uint32_t i, Extent* out);
/// Of which kind the checksum of piece `i` is: 0 a CRC-32, 1 a CRC-32C.
ESPALIER_ABI std::uint32_t espalier_checksums_kind(Checksums* checksums, std::uint32_t i);
/// Feeds the checksum of piece `i`, of its kind.
ESPALIER_ABI Status espalier_checksums_feed(Checksums* checksums, std::uint32_t i,
                                            std::uint32_t crc);
/// Finishes `verification`, of the same tree, once all pieces are fed; in place of
/// espalier_verify_finish().
ESPALIER_ABI void espalier_checksums_finish(Checksums* checksums, Verification* verification,
                                            Report* out);
ESPALIER_ABI void espalier_checksums_free(Checksums* checksums);

// Decoding (engine.wasm) -------------------------------------------------------------------------

/// Begins to decode the chunks of one read: `copy` and `chunks` are the plan's. Never null.
ESPALIER_ABI Decoding* espalier_decoding(const std::uint64_t* copy, std::uint32_t words,
                                         std::uint32_t chunks);
/// Decodes and checks the stored bytes of a chunk, and of its bases behind them. Returns their part
/// of the result, and its offset. The part may be `stored` itself; it is valid until the next call
/// of any function. Chunks may come in any order, each once. If chunks are spread over the result,
/// all parts are empty except that of the last call, which is the whole result. Errors have no
/// offset and no path; that of a wrong base has the base's number in place of an offset.
ESPALIER_ABI Status espalier_decode(Decoding* decoding, const ChunkTask* task,
                                    const std::byte* stored, std::uint32_t length, Piece* out);
ESPALIER_ABI void espalier_decoding_free(Decoding* decoding);
/// Checks a region: `task` is the verification's, with the tasks of bases behind its chunks, as
/// `bytes` has their bytes behind the region's. Damage is not a failure. The result is valid
/// until the next call.
ESPALIER_ABI Status espalier_check_region(const RegionTask* task, const std::byte* bytes,
                                          std::uint32_t length, DamagedSpots* out);

// Statistics (engine.wasm) -----------------------------------------------------------------------

/// Statistics of elements of `dtype`, fed in pieces.
ESPALIER_ABI Counting* espalier_statistics(std::uint32_t dtype);
/// Feeds packed elements, as in chunks: elements of six bits may continue in the next piece, all
/// others are whole.
ESPALIER_ABI void espalier_statistics_add(Counting* counting, const std::byte* packed,
                                          std::uint32_t length);
ESPALIER_ABI void espalier_statistics_result(Counting* counting, Statistics* out);
/// All buckets that are not empty, with exact counts. A bucket's width is at most 1/128 of its
/// numbers' size. Valid until the next call for this handle.
ESPALIER_ABI void espalier_statistics_histogram(Counting* counting, HistogramView* out);
ESPALIER_ABI void espalier_statistics_free(Counting* counting);

// Surveys and health (engine.wasm) ---------------------------------------------------------------

/// A survey of a tensor, fed like statistics. Never null.
ESPALIER_ABI Survey* espalier_survey(std::uint32_t dtype, const std::uint64_t* shape,
                                     std::uint32_t rank);
ESPALIER_ABI void espalier_survey_add(Survey* survey, const std::byte* packed,
                                      std::uint32_t length);
/// Call once, after all elements.
ESPALIER_ABI void espalier_survey_result(Survey* survey, SurveyResult* out);
ESPALIER_ABI void espalier_survey_free(Survey* survey);

/// An empty check.
ESPALIER_ABI Health* espalier_health();
/// Adds a tensor whose survey has its result; the check keeps a copy.
ESPALIER_ABI void espalier_health_tensor(Health* health, const char* path, std::uint32_t length,
                                         Survey* survey);
ESPALIER_ABI void espalier_health_unreadable(Health* health, const char* path, std::uint32_t length,
                                             const char* reason, std::uint32_t reason_length);
ESPALIER_ABI void espalier_health_number(Health* health, const char* path, std::uint32_t length,
                                         double value);
/// Looks for faults in what was added, and returns the number of findings.
/// Says that a node is there which is no container, and neither examined nor a number.
ESPALIER_ABI void espalier_health_present(Health* health, const char* path, std::uint32_t length);
ESPALIER_ABI std::uint32_t espalier_health_findings(Health* health);
/// Finding number `i`; its texts are valid until the next call of espalier_health_findings().
ESPALIER_ABI void espalier_health_finding(Health* health, std::uint32_t i, HealthFinding* out);
ESPALIER_ABI void espalier_health_free(Health* health);

// Writing (writer.wasm) --------------------------------------------------------------------------

/// Makes bytes from byte `offset` on: of tensor `number` of `source`, or, if `is_stored`, of file
/// `number` of it. Source 0 is espalier_write_tensor(). Of another source, the bytes are a part of
/// what espalier_write_needs() or espalier_write_find_needs() told; they are asked for in that
/// order. JavaScript implements it. Returns 0, or a status that ends the write.
#ifdef __EMSCRIPTEN__
extern "C" __attribute__((import_module("env"), import_name("espalier_produce"))) Status
espalier_produce(std::uint32_t source, std::uint32_t number, std::uint32_t is_stored,
                 std::uint64_t offset, std::byte* out, std::uint32_t length);
#else
extern "C" Status espalier_produce(std::uint32_t source, std::uint32_t number,
                                   std::uint32_t is_stored, std::uint64_t offset, std::byte* out,
                                   std::uint32_t length);
#endif

/// An empty write. Build the tree from the top: first the state, one value, then the metadata, a
/// dict. Give the key before a value in a dict or record, and the label, if any, before a value.
/// espalier_write_plan() reports mistakes.
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
/// A tensor, or a placeholder. Tensors of the same `id` are tied; the first one describes them all.
ESPALIER_ABI void espalier_write_tensor(Write* write, std::uint32_t id, std::uint32_t dtype,
                                        const std::uint64_t* shape, std::uint32_t rank,
                                        std::uint32_t is_placeholder, const Text* axis_names,
                                        std::uint32_t axis_count, const Text* block_name,
                                        std::uint32_t block_elements, std::uint32_t block_bytes);
/// Adds a checkpoint whose nodes become values, and returns its number. The tree, of
/// espalier_tree_of_tables(), must outlive the write.
ESPALIER_ABI std::uint32_t espalier_write_source(Write* write, Tree* tree);
/// Adds a node of a source and all below it as a value; the node's own label only if `has_label`,
/// which is 0 for tensors and placeholders alone. A tensor that is added more than once is tied.
ESPALIER_ABI Status espalier_write_node(Write* write, std::uint32_t source, std::uint32_t node,
                                        std::uint32_t has_label);
/// espalier_tree_of_tables() for a base, with the files of the tree, from number 0 on.
ESPALIER_ABI Tree* espalier_base_of_tables(const Tables* tables, const std::uint8_t* digest,
                                           const CopiedFile* files, std::uint32_t count);
/// Adds a base: a checkpoint beside the new file, which refers to what lies there already. `source`
/// is that of a tree of espalier_base_of_tables(); `name` is that of file 0 beside the new one.
ESPALIER_ABI Status espalier_write_base(Write* write, std::uint32_t source, const char* name,
                                        std::uint32_t length, std::uint32_t is_espalier);
/// Looks for what lies in the bases, if there are any, once the tree is built and before
/// espalier_write_plan(): see SaveOptions::most_of_full. It takes stages of steps, which
/// espalier_write_find_next() begins.
ESPALIER_ABI Status espalier_write_find(Write* write, double most_of_full);
/// Goes on to the next stage, once all steps of the one before are done. Returns how many steps it
/// has, or kNone after the last stage, and in `bytes` what they compare in all.
ESPALIER_ABI std::uint32_t espalier_write_find_next(Write* write, std::uint64_t* bytes);
/// The bytes of sources that step `i` of the stage reads. Valid until the next call of this
/// function.
ESPALIER_ABI Status espalier_write_find_needs(Write* write, std::uint32_t i, WriteNeeds* out);
/// Takes step `i`; in order, from 0.
ESPALIER_ABI Status espalier_write_find_step(Write* write, std::uint32_t i);
/// Lays the file out; returns its length, which is an upper bound if the file is compressed, and
/// the number of pieces. `level` is that of SaveOptions::compression_level, and `carry` 1 to take
/// chunks of sources over as they are stored.
ESPALIER_ABI Status espalier_write_plan(Write* write, std::int32_t level, std::uint32_t carry,
                                        std::uint64_t* length, std::uint32_t* pieces);
/// The same for a safetensors file; in place of espalier_write_plan(). `unrepresentable` is an
/// espalier::Unrepresentable.
ESPALIER_ABI Status espalier_write_plan_safetensors(Write* write, std::uint32_t unrepresentable,
                                                    std::uint64_t* length, std::uint32_t* pieces);
/// Value `i` of those that a safetensors file leaves out: its path, and what it is in place of a
/// message. Returns their number, and describes the first.
ESPALIER_ABI std::uint32_t espalier_write_dropped(Write* write, std::uint32_t i, Failure* out);
/// The bytes of sources that piece `i` is made of. Valid until the next call of this function.
ESPALIER_ABI Status espalier_write_needs(Write* write, std::uint32_t i, WriteNeeds* out);
/// The bytes of piece `i`, in order from 0: first the tensors' data, then the index, then the
/// header. Bytes that no piece covers are zero.
ESPALIER_ABI Status espalier_write_piece(Write* write, std::uint32_t i, Piece* out);
ESPALIER_ABI void espalier_write_free(Write* write);

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_ABI_H_
