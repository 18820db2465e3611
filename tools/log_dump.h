#pragma once
/// penqueue --log: the queue log's files as text, whether the mail system runs or not. Takes no lock, writes nothing.
#include <string>
#include <vector>

namespace pen::tools {

/// Prints directories of logs, or single files of one ("segment-00000001", "positions", or a copy under any name).
/// Returns an exit code: 0, EX_DATAERR when something was not as it was written, or by another version, EX_NOINPUT
/// when a path cannot be read.
int dump_log(const std::string& program, const std::vector<std::string>& paths, bool verbose);

}  // namespace pen::tools
