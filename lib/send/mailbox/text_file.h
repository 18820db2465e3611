#pragma once
/// Reads the text files that say where mail goes (.forward, :include:), with a bound, and checks which users may
/// write them. Blocks; runs as the current user.
#include <sys/types.h>

#include <string>

#include "lib/base/result.h"

namespace pen::mailbox {

struct TextFile {
  std::string text;
  uid_t owner = 0;
};
enum class Links { follow, refuse };  // for a symbolic link as the last part of the path

/// Errors: errno of the file; EINVAL: not a regular file; EPERM: writable for everybody; EFBIG: longer than `limit`
/// bytes.
Result<TextFile> read_text_file(const std::string& path, std::size_t limit, Links links);

}  // namespace pen::mailbox
