#include "troupe/net/base/text.hpp"

#include <gtest/gtest.h>

using namespace troupe::net;

TEST(Printable, KeepsTextOfAnyLanguage) {
  for (const std::string text :
       {"", "a plain sentence: 100 %", "na\u00efve caf\u00e9", "\u65e5\u672c",
        "\U0001f600", "\u00a0\ud7ff\ue000\U0010ffff"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ReplacesControlCharactersByQuestionMarks) {
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[31mred\ntroupe: all is well"),
            "?]0;title??[31mred?troupe: all is well");
  EXPECT_EQ(printable("a\r\t\x7f\x08z"), "a????z");
  EXPECT_EQ(printable(std::string_view{"a\0z", 3}), "a?z");
  // U+009B, the control sequence introducer, is encoded in two bytes
  EXPECT_EQ(printable("\u009b31m"), "??31m");
  // a single byte 0x9B is not valid UTF-8
  EXPECT_EQ(printable("\x9b[m"), "?[m");
  EXPECT_EQ(printable("\u202egnp.exe"), "???gnp.exe");
  EXPECT_EQ(printable("\u2066\u2069\u2028"), "?????????");
}

TEST(Printable, ReplacesInvalidUtf8ByQuestionMarks) {
  EXPECT_EQ(printable("\xc3"), "?"); // a truncated character
  EXPECT_EQ(printable("\xe2\x82"), "??");
  EXPECT_EQ(printable("\xc3z\xf0\x9fz"), "?z??z");
  EXPECT_EQ(printable("\xc1\x9b"), "??"); // an encoding that is too long
  EXPECT_EQ(printable("\xe0\x82\x9b"), "???");
  EXPECT_EQ(printable("\xf0\x80\x82\x9b"), "????");
  EXPECT_EQ(printable("\xed\xa0\x80"), "???"); // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80\xff"), "?????");
}

TEST(Printable, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(printable(std::string(300, 'x')), std::string(300, 'x'));
  EXPECT_EQ(printable(std::string(301, 'x')), std::string(297, 'x') + "...");
  EXPECT_EQ(printable("123456", 6), "123456");
  EXPECT_EQ(printable("1234567", 6), "123...");
  EXPECT_EQ(printable("12\u00e9"
                      "567",
                      6),
            "12...");
  EXPECT_EQ(printable(std::string(1000, '\x1b'), 6), "???...");
}

TEST(PrintableLines, KeepsOnlyLineBreaksAndTabs) {
  EXPECT_EQ(printable_lines("a\n\tb\r\x1b[2J", 100), "a\n\tb??[2J");
}
