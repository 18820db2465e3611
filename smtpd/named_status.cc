#include "smtpd/named_status.h"

#include <algorithm>
#include <array>

namespace pen::smtpd {
namespace {

struct Row {
  std::string_view detail, of_sender, of_recipient;
};
constexpr std::array<Row, 9> kRows{{{"0", "0", "0"},
                                    {"1", "7", "1"},
                                    {"2", "8", "2"},
                                    {"3", "7", "3"},
                                    {"4", "7", "4"},
                                    {"5", "0", "5"},
                                    {"6", "7", "6"},
                                    {"7", "7", "3"},
                                    {"8", "8", "2"}}};

}  // namespace

std::string named_status(std::string_view kind, std::string_view dsn) {
  constexpr std::string_view kOfAddress = ".1.";
  if (dsn.size() < 5 || dsn.substr(1, 3) != kOfAddress) return std::string(dsn);
  if (kind == "Client host" || kind == "Helo command") return std::string(dsn.substr(0, 1)) + ".0.0";
  const bool sender = kind == "Sender address";
  if (!sender && kind != "Recipient address") return std::string(dsn);
  const auto* row = std::ranges::find(kRows, dsn.substr(4), &Row::detail);
  const std::string_view detail = row == kRows.end() ? "0" : sender ? row->of_sender : row->of_recipient;
  return std::string(dsn.substr(0, 4)) + std::string(detail);
}

}  // namespace pen::smtpd
