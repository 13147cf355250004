// The functions of `wasm/abi.h`. Pointers and handles are numbers; returned ones may be negative and need `>>> 0`.
// Integers of 64 bits are bigints.

/** The exports of the modules, with the names and in the order of `abi.h`, which lists the parts of each module. */
export interface CoreExports {
  espalier_allocate(bytes: number): number
  espalier_free(memory: number): void
  espalier_last_error(): number

  espalier_error_name(code: number, out: number): void
  espalier_dtype_name(dtype: number, out: number): void
  espalier_dtype_bits(dtype: number): number
  espalier_kind_name(kind: number, out: number): void

  espalier_open(fileSize: bigint, indexBytes: number, nest: number, name: number, nameLength: number): number
  espalier_open_needs(opening: number, out: number, capacity: number): number
  espalier_open_wants(opening: number, out: number, capacity: number): number
  espalier_open_answer(opening: number, file: number, size: bigint): number
  espalier_open_refuse(opening: number, file: number, isMissing: number, message: number, length: number): number
  espalier_open_feed(opening: number, file: number, offset: bigint, bytes: number, length: number): number
  espalier_open_finish(opening: number): number
  espalier_open_free(opening: number): void

  espalier_tree_free(tree: number): void
  espalier_tree_info(tree: number, out: number): void
  espalier_note(tree: number, i: number, out: number): number
  espalier_is_nested(tree: number): number
  espalier_has_dotted_keys(tree: number): number
  espalier_node(tree: number, node: number, out: number): number
  espalier_parent(tree: number, node: number): number
  espalier_path(tree: number, node: number, out: number): number
  espalier_find(tree: number, node: number, path: number, length: number, out: number): number
  espalier_child_text(tree: number, node: number, key: number, length: number): number
  espalier_child_int(tree: number, node: number, key: bigint): number
  espalier_keys(tree: number, node: number, first: number, count: number, out: number): number
  espalier_match(tree: number, root: number, patterns: number, count: number, options: number): number
  espalier_match_nodes(matches: number): number
  espalier_match_count(matches: number): number
  espalier_match_free(matches: number): void
  espalier_totals(tree: number, node: number, out: number): number
  espalier_totals_by_dtype(tree: number, nodes: number, count: number, out: number): number
  espalier_tensor_path(tree: number, tensor: number, out: number): number
  espalier_tensor(tree: number, tensor: number, out: number): number

  espalier_tables(tree: number): number
  espalier_tree_of_tables(tables: number, digest: number): number
  espalier_diff(a: number, b: number): number
  espalier_diff_info(diff: number, out: number): void
  espalier_diff_free(diff: number): void
  espalier_parts(tree: number): number

  espalier_key_maps(out: number): void
  espalier_mapping(): number
  espalier_mapping_add(mapping: number, tree: number, label: number, length: number): void
  espalier_mapping_plan(mapping: number, texts: number): number
  espalier_mapping_tree(mapping: number): number
  espalier_mapping_text(mapping: number, out: number): void
  espalier_mapping_begin(mapping: number, offset: bigint, length: number, out: number): number
  espalier_mapping_need(mapping: number, out: number): number
  espalier_mapping_feed(mapping: number, bytes: number, length: number): number
  espalier_mapping_take(mapping: number, out: number): number
  espalier_mapping_free(mapping: number): void

  espalier_read(tree: number, tensor: number, slices: number, count: number): number
  espalier_read_info(read: number, out: number): void
  espalier_read_chunk(read: number, i: number, out: number): number
  espalier_read_base(read: number, i: number, base: number, out: number): number
  espalier_read_free(read: number): void

  espalier_made_file(tree: number, from: number, out: number): number
  espalier_make(tree: number, file: number): number
  espalier_make_needs(making: number, out: number): number
  espalier_make_feed(making: number, file: number, offset: bigint, bytes: number, length: number): number
  espalier_make_finish(making: number, out: number): number
  espalier_make_free(making: number): void

  espalier_verify(tree: number): number
  espalier_verify_regions(verification: number): number
  espalier_verify_region(verification: number, i: number, out: number): number
  espalier_verify_base(verification: number, i: number, base: number, out: number): number
  espalier_verify_task(verification: number, i: number, out: number): number
  espalier_verify_damage(verification: number, i: number, spots: number, count: number): number
  espalier_verify_damaged(verification: number): number
  espalier_verify_finish(verification: number, out: number): number
  espalier_verify_error(verification: number, i: number, out: number): number
  espalier_verify_free(verification: number): void

  espalier_has_checksums(tree: number): number
  espalier_checksums(tree: number): number
  espalier_checksums_info(checksums: number, out: number): void
  espalier_checksums_piece(checksums: number, i: number, out: number): number
  espalier_checksums_kind(checksums: number, i: number): number
  espalier_checksums_feed(checksums: number, i: number, crc: number): number
  espalier_checksums_finish(checksums: number, verification: number, out: number): void
  espalier_checksums_free(checksums: number): void

  espalier_decoding(copy: number, words: number, chunks: number): number
  espalier_decode(decoding: number, task: number, stored: number, length: number, out: number): number
  espalier_decoding_free(decoding: number): void
  espalier_check_region(task: number, bytes: number, length: number, out: number): number

  espalier_statistics(dtype: number): number
  espalier_statistics_add(counting: number, packed: number, length: number): void
  espalier_statistics_result(counting: number, out: number): void
  espalier_statistics_histogram(counting: number, out: number): void
  espalier_statistics_free(counting: number): void

  espalier_survey(dtype: number, shape: number, rank: number): number
  espalier_survey_add(survey: number, packed: number, length: number): void
  espalier_survey_result(survey: number, out: number): void
  espalier_survey_free(survey: number): void
  espalier_health(): number
  espalier_health_tensor(health: number, path: number, length: number, survey: number): void
  espalier_health_unreadable(health: number, path: number, length: number, reason: number, reasonLength: number): void
  espalier_health_number(health: number, path: number, length: number, value: number): void
  espalier_health_present(health: number, path: number, length: number): void
  espalier_health_findings(health: number): number
  espalier_health_finding(health: number, i: number, out: number): void
  espalier_health_free(health: number): void

  espalier_write(): number
  espalier_write_text_key(write: number, key: number, length: number): void
  espalier_write_int_key(write: number, key: bigint): void
  espalier_write_label(write: number, label: number, length: number): void
  espalier_write_begin(write: number, kind: number): void
  espalier_write_end(write: number): void
  espalier_write_number(write: number, kind: number, a: bigint, b: bigint): void
  espalier_write_bytes(write: number, kind: number, data: number, length: number): void
  espalier_write_tensor(
    write: number,
    id: number,
    dtype: number,
    shape: number,
    rank: number,
    isPlaceholder: number,
    axisNames: number,
    axisCount: number,
    blockName: number,
    blockElements: number,
    blockBytes: number,
  ): void
  espalier_write_source(write: number, tree: number): number
  espalier_write_node(write: number, source: number, node: number, hasLabel: number): number
  espalier_base_of_tables(tables: number, digest: number, files: number, count: number): number
  espalier_write_base(write: number, source: number, name: number, length: number, isEspalier: number): number
  espalier_write_find(write: number, mostOfFull: number): number
  espalier_write_find_next(write: number, bytes: number): number
  espalier_write_find_needs(write: number, i: number, out: number): number
  espalier_write_find_step(write: number, i: number): number
  espalier_write_plan(write: number, level: number, carry: number, length: number, pieces: number): number
  espalier_write_plan_safetensors(write: number, unrepresentable: number, length: number, pieces: number): number
  espalier_write_dropped(write: number, i: number, out: number): number
  espalier_write_needs(write: number, i: number, out: number): number
  espalier_write_piece(write: number, i: number, out: number): number
  espalier_write_free(write: number): void
}
