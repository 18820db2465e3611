#include "lib/suite/service/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace pen::service {
namespace {

/// Before the text. turn: even; odd while the text is being written.
struct Head {
  std::uint64_t turn = 0, size = 0;
};

bool put(int board, const void* from, std::size_t size, off_t at) {
  return ::pwrite(board, from, size, at) == static_cast<ssize_t>(size);
}

Result<Head> head_of(int board) {
  Head head;
  const ssize_t n = ::pread(board, &head, sizeof head, 0);
  if (n != static_cast<ssize_t>(sizeof head)) return fail_errno("board", n < 0 ? errno : EIO);
  return head;
}

}  // namespace

Result<Fd> create_board() {
  Fd fd(::memfd_create("status", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("memfd_create");
  if (::fchmod(fd.get(), 0600) != 0 || ::ftruncate(fd.get(), kBoardBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno("board");
  return fd;
}

Result<void> write_board(int board, std::string_view text) {
  if (text.size() + sizeof(Head) > kBoardBytes) return fail_errno("board", EMSGSIZE);
  PEN_TRY_ASSIGN(Head head, head_of(board));
  head.turn |= 1U;
  if (!put(board, &head, sizeof head, 0)) return fail_errno("board");
  if (!put(board, text.data(), text.size(), sizeof head)) return fail_errno("board");
  head = {head.turn + 1, text.size()};
  if (!put(board, &head, sizeof head, 0)) return fail_errno("board");
  return {};
}

Result<std::string> read_board(int board) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    PEN_TRY_ASSIGN(const Head before, head_of(board));
    if (before.turn % 2 != 0) continue;
    if (before.size + sizeof(Head) > kBoardBytes) return fail_errno("board", EIO);
    std::string text(before.size, '\0');
    const ssize_t n = ::pread(board, text.data(), text.size(), sizeof(Head));
    if (n != static_cast<ssize_t>(text.size())) return fail_errno("board", n < 0 ? errno : EIO);
    PEN_TRY_ASSIGN(const Head after, head_of(board));
    if (after.turn == before.turn) return text;
  }
  return fail_errno("board", EAGAIN);
}

}  // namespace pen::service
