"""The CLASH benchmark: does the model notice that caption and picture contradict?"""
