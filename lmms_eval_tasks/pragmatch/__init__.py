"""The PragMatch benchmark: is this picture and caption sarcastic together?"""
