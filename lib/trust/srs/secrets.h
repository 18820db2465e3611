#pragma once
/// The file of secrets that rewritten senders are signed with: one in a line, as postsrsd has it.
///
/// Use:     auto secrets = read_secrets(settings.srs_secrets_file);     // the first signs, all are accepted
/// Rules:   blanks around a secret, and empty lines, do not count. A user who can read a secret can send mail through
///          this host to anybody, so a file that every user can read, or that others than its owner can change, is
///          refused.
/// Bounds:  64 KiB, 100 secrets of at most 1000 bytes.
/// Errors:  errno of opening and reading; SecretsError.
/// Thread:  any. Reads a file: at start.
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace pen::srs {

enum class SecretsError { empty = 1, readable, writable, not_a_file, too_large };
inline std::string_view error_module(SecretsError) { return "SRS secrets"; }
std::string_view describe(SecretsError e);

Result<std::vector<std::string>> read_secrets(const std::string& path);

}  // namespace pen::srs
