#include "lib/send/mailbox/environment.h"

#include <cstdlib>

namespace pen::mailbox {

std::vector<std::string> exported_environment(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const auto& word : words) {
    if (word.find('=') != std::string::npos)
      out.push_back(word);
    else if (const char* value = std::getenv(word.c_str()))
      out.push_back(word + "=" + value);
  }
  return out;
}

}  // namespace pen::mailbox
