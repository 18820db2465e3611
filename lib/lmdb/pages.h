#pragma once
/// Whether an LMDB file holds together: liblmdb maps its file and believes what is on the pages, so
/// a file cut short kills the process with SIGBUS, and a page that was overwritten with SIGSEGV.
///
/// Use:     if (auto ok = check_pages(fd); !ok) … do not open it with liblmdb …
/// Looks:   both meta pages; then every page that can be reached from the newer one: its number and
///          kind, that what lies on it lies on it, that children are pages of the file, met once and
///          in a tree of the depth that the file names; the list of free pages.
/// Misses:  bytes changed inside keys and values, keys that are out of order by that, a meta page
///          that makes the older one count: wrong or missing answers, never a crash. A file that is
///          changed in place after the check.
/// Costs:   one read per page, no mapping; one bit of memory per page of the file.
/// Format:  data version 1 of liblmdb 0.9 as written by a machine of this one's byte order and word
///          size.  Thread: any.
#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace pen::lmdb {

enum class PageDamage { not_lmdb = 1, too_short, bad_page };
std::string_view error_module(PageDamage);
std::string_view describe(PageDamage);

/// fd: open for reading; its position is not used. Errors: PageDamage with what and where; errno.
Result<void> check_pages(int fd);

}  // namespace pen::lmdb
