#include "lib/queue/shaping/repeated.h"

#include "lib/base/text.h"

namespace pen::shaping {
namespace {

constexpr std::size_t kLeastPart = 4;

bool of_word(char c) { return ascii_alnum(c); }

/// Where the part stands as a word of its own.
void drop_word(std::string& words, std::string_view part) {
  if (part.size() < kLeastPart) return;
  for (std::size_t at = 0; (at = words.find(part, at)) != std::string::npos;) {
    const std::size_t end = at + part.size();
    const bool begins = at == 0 || !of_word(words[at - 1]) || !of_word(part.front());
    const bool ends = end == words.size() || !of_word(words[end]) || !of_word(part.back());
    if (begins && ends)
      words.erase(at, part.size());
    else
      ++at;
  }
}

/// A local part without quotes, blanks as in a reply.
std::string unquoted(std::string_view local) {
  std::string out;
  for (std::size_t i = 0; i < local.size(); ++i) {
    if (local[i] == '"') continue;
    if (local[i] == '\\' && i + 1 < local.size()) ++i;
    if (local[i] != ' ' || (!out.empty() && out.back() != ' ')) out += local[i];
  }
  return out;
}

void drop_brackets(std::string& words) {
  for (std::size_t at = 0; (at = words.find('<', at)) != std::string::npos; ++at) {
    const auto end = words.find('>', at);
    if (end == std::string::npos) return;
    words.erase(at + 1, end - at - 1);
  }
}

void drop_addresses(std::string& words) {
  for (std::size_t at = 0; (at = words.find('@', at)) != std::string::npos;) {
    std::size_t begin = at;
    if (begin > 0 && words[begin - 1] == '"')
      if (const auto quote = begin < 2 ? std::string::npos : words.rfind('"', begin - 2); quote != std::string::npos)
        begin = quote;
    begin = begin == 0 ? 0 : words.rfind(' ', begin - 1) + 1;  // npos + 1: the beginning
    const auto end = std::min(words.find(' ', at), words.size());
    words.erase(begin, end - begin);
    at = begin;
  }
}

}  // namespace

void drop_repeated(std::string& words, std::span<const std::string_view> addresses) {
  for (const std::string_view given : addresses) {
    const std::string address = to_lower(given);
    drop_word(words, address);
    const auto at = address.rfind('@');
    const std::string local = address.substr(0, at);
    drop_word(words, local);
    drop_word(words, unquoted(local));
    if (at != std::string::npos) drop_word(words, std::string_view(address).substr(at + 1));
  }
  drop_brackets(words);
  drop_addresses(words);
}

Reply own_words(std::string_view text, std::span<const std::string_view> addresses) {
  Reply reply = reply_of(text);
  drop_repeated(reply.words, addresses);
  return reply;
}

}  // namespace pen::shaping
