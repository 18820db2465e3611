#pragma once
/// Checks whether an LMDB file is consistent. liblmdb maps its file and trusts its pages: a file cut short kills the
/// process with SIGBUS, an overwritten page with SIGSEGV.
///
/// Use:     if (auto ok = check_pages(fd); !ok) … do not open it with liblmdb …
/// Checks:  both meta pages; then every page that can be reached from the newer one: its number and kind, that its
///          nodes lie within it, that children are pages of the file, met only once, in a tree of the stated depth;
///          and the list of free pages.
/// Misses:  changed bytes inside keys and values, keys that are out of order because of that, a changed meta page that
///          makes the older one count: they cause wrong or missing answers, never a crash. Also changes in place after
///          the check.
/// Costs:   one read per page, no mapping; one bit of memory per page of the file.
/// Format:  data version 1 of liblmdb 0.9, written by a machine with this one's byte order and word size. Thread: any.
#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace pen::lmdb {

enum class PageDamage { not_lmdb = 1, too_short, bad_page };
std::string_view error_module(PageDamage);
std::string_view describe(PageDamage);

/// fd: open for reading; its position is not used. Errors: PageDamage with kind and place; errno.
Result<void> check_pages(int fd);

}  // namespace pen::lmdb
