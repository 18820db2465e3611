#pragma once
/// A text that one process keeps up to date and others read, without a file: master's state, for penapi.
///
/// Use:     master:  PEN_TRY_ASSIGN(Fd board, create_board());  write_board(board.get(), text);
///          penapi:  auto text = read_board(fd);
/// Owns:    memory of fixed size, which belongs to its maker (mode 0600): a process that has it to read
///          (metrics::reader_of) cannot open it to write.
/// Rules:   one writer. A reader that meets a half-written text reads again.
/// Errors:  errno; a text that does not fit is not written (EMSGSIZE), and the one before stays; EAGAIN: the writer was
///          never done, or died while it wrote.
/// Thread:  any.
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::service {

inline constexpr std::size_t kBoardBytes = 1024 * 1024;  // touched pages alone take memory

Result<Fd> create_board();
Result<void> write_board(int board, std::string_view text);
/// Empty: nothing has been written yet.
Result<std::string> read_board(int board);

}  // namespace pen::service
