#pragma once
/// penqueue --log: prints the files of the queue log as text, whether or not the mail system runs. Takes no lock,
/// writes nothing.
#include <string>
#include <vector>

namespace pen::tools {

/// Prints directories of logs, or single files ("segment-00000001", "positions", or a copy under any name). Returns
/// an exit code: 0, EX_DATAERR if a file is damaged or of another version, EX_NOINPUT if a path cannot be read.
int dump_log(const std::string& program, const std::vector<std::string>& paths, bool verbose);

}  // namespace pen::tools
